"""One colour, one meaning: hues of ways to collect, and contrast on both grounds."""

from __future__ import annotations

import colorsys
import itertools

import pytest

from evenroll.samplers import SAMPLERS
from evenroll.study.palette import GREY, HUES, INK, Colour, look_of, second_look

METHODS = (
    "os/mc", "bpg/ois", "ros/mc", "auto/mc", "os/wris", "bpg/wris", "ros/wris", "auto/wris", "os/fqe", "ros/fqe",
    "os/fqe-net-small", "ros/fqe-net-small", "os/fqe-net", "init+os/mc", "init+os/wis+mc", "init+bpg/ois", "init+ros/mc",
    "init+auto/mc", "roa/mc", "os/score", "bpg/mc", "ros:alpha=1/mc", "ros:alpha=10/mc", "ros:alpha=100/mc",
    "ros:alpha=10000/mc", "ros:alpha=5/mc",
)  # fmt: skip


def channels(text: str) -> tuple[float, float, float]:
    return tuple(int(text[i : i + 2], 16) / 255 for i in (1, 3, 5))  # type: ignore[return-value]


def contrast(one: str, other: str) -> float:
    """As WCAG 2 defines it: (lighter + 0.05) / (darker + 0.05) of the relative luminances."""

    def luminance(text: str) -> float:
        linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in channels(text)]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def hue(text: str) -> float:
    return 360 * colorsys.rgb_to_hls(*channels(text))[0]


def test_no_two_methods_look_alike() -> None:
    assert len({look_of(method) for method in METHODS}) == len(METHODS)
    assert look_of("os") == look_of("os/mc")
    assert look_of("bpg") == look_of("bpg/ois")
    assert look_of("ros:alpha=1000/mc") == look_of("ros/mc")  # what GridWorld's ROS is
    assert second_look("ros/mc") not in {look_of(method) for method in METHODS}


def test_methods_of_one_sampler_share_a_hue_and_no_other_sampler_has_it() -> None:
    """Hues in degrees of the usual colour wheel, up to what rounding and the edge of the screen's colours do to them."""
    for theme in ("light", "dark"):
        hues: dict[str, list[float]] = {}
        for method in METHODS:
            sampler = method.removeprefix("init+").partition("/")[0].partition(":")[0]
            hues.setdefault(sampler, []).append(hue(getattr(look_of(method).colour, theme)))
        for found in hues.values():
            assert max(found) - min(found) < 20.0, hues
        for one, other in itertools.combinations(hues.values(), 2):
            apart = min(abs(a - b) % 360 for a in one for b in other)
            assert min(apart, 360 - apart) > 10.0, hues


def test_every_sampler_has_a_hue() -> None:
    assert set(SAMPLERS) == set(HUES)
    assert len(set(HUES.values())) == len(HUES)
    assert look_of("somebody.else/mc").colour.name == "by-somebody-else"


@pytest.mark.parametrize("colour", [*(look_of(method).colour for method in METHODS[:4]), GREY, INK], ids=lambda c: c.name)
def test_lines_can_be_seen_on_both_grounds(colour: Colour) -> None:
    """3 to 1 is what the guidelines for accessible pages ask of graphics; the grounds are those of the page's charts."""
    assert contrast(colour.light, "#f6f7f9") >= 3.0
    assert contrast(colour.dark, "#1d2125") >= 3.0
