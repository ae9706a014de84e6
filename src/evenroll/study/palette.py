"""One colour, one meaning: the hue says how the data was collected, over the whole page and in every figure.

Shade and marker say what else sets a method apart: its estimator, its step size, or that it starts from initial data. A
look is a function of the method's name alone, so a method looks the same in every chart. Everything that is no way to
collect (theory, bounds, verdicts, the actions of an example, links) is drawn in ink and grey.
"""

from __future__ import annotations

import functools
import math
import zlib
from dataclasses import dataclass

from evenroll.study.method import MethodSpec

# Hues in degrees of the OKLCH colour space. The first four, the methods of every figure, are close to hues of Okabe and
# Ito's palette, which people with any of the usual colour blindnesses can tell apart.
HUES = {
    "os": 250.0, "ros": 42.0, "bpg": 165.0, "auto": 325.0,
    "roa": 95.0, "props": 205.0, "revar": 5.0, "odi": 130.0, "off": 280.0, "ros-episode": 65.0, "ros-head": 22.0,
}  # fmt: skip
OTHER_HUES = (110.0, 80.0, 185.0, 225.0, 300.0, 345.0)  # of samplers that this table does not know
CHROMA = 0.15
LIGHTNESS = {"light": (0.55, 0.15), "dark": (0.70, 0.13)}  # of shade 0, and what a shade of 1 adds
PLAIN = {"bpg": "ois"}  # the estimator that goes without saying; of all others it is the plain mean
ESTIMATORS = {  # (shade, marker) of the other estimators that the paper's figures show
    "wris": (0.9, "square"), "wis+mc": (0.8, "square"), "fqe": (0.8, "triangle"), "fqe-net-small": (-0.6, "diamond"),
    "fqe-net": (0.4, "cross"),
}  # fmt: skip
MARKERS = ("square", "triangle", "diamond", "cross", "down")
STEP_SIZES = ("triangle", "square", "diamond", "disc", "down")  # markers of step sizes 1, 10, 100, 1000 and 10000
WITH_INITIAL_DATA = -0.6  # shade; the marker is hollow


@dataclass(frozen=True)
class Colour:
    """A colour by its name, with its value on a light and on a dark ground."""

    name: str
    light: str
    dark: str


@dataclass(frozen=True)
class LineStyle:
    """How a series is drawn. `marker` is disc, square, triangle, diamond, cross or down (a triangle on its tip)."""

    colour: Colour
    marker: str = "disc"
    hollow: bool = False


GREY = Colour("grey", "#85898e", "#8d949b")  # what theory says
INK = Colour("ink", "#1b1f24", "#e8eaed")


def look_of(method: str) -> LineStyle:
    """The look of a method or of a way to collect: `os` looks like `os/mc`."""
    spec = MethodSpec.parse(method)
    shade, marker = _shade_and_marker(spec)
    return LineStyle(_colour(spec.name, shade), marker, spec.initial)


def second_look(method: str) -> LineStyle:
    """The look of a method where a chart shows it a second time, with another setting."""
    spec = MethodSpec.parse(method)
    shade, _ = _shade_and_marker(spec)
    return LineStyle(_colour(spec.name, shade + (0.8 if shade <= 0.0 else -0.8)), "down", spec.initial)


def _shade_and_marker(spec: MethodSpec) -> tuple[float, str]:
    """An estimator that does not go without saying sets shade and marker; beside it, parameters set the shade.

    Parameters alone set both, and are then a little lighter than beside an estimator.
    """
    plain = spec.estimator in ("", PLAIN.get(spec.name, "mc"))
    if plain:
        return _by_parameters(spec.parameters) if spec.parameters else (WITH_INITIAL_DATA if spec.initial else 0.0, "disc")
    shade, marker = ESTIMATORS.get(spec.estimator) or _any(spec.estimator)
    return (_by_parameters(spec.parameters)[0] - 0.35 if spec.parameters else shade), marker


def _by_parameters(parameters: str) -> tuple[float, str]:
    """Step sizes run from light (1) over the method's own shade (1000) to dark; other parameters differ somehow."""
    key, _, value = parameters.partition("=")
    if key != "alpha" or "," in parameters or not float(value) > 0.0:
        return _any(parameters)
    decades = math.log10(float(value))
    shade = max(-1.0, min(1.0, (3.0 - decades) / (3.0 if decades < 3.0 else 1.5)))
    return shade, STEP_SIZES[round(decades)] if 0.0 <= decades < 4.5 else "cross"


def _any(text: str) -> tuple[float, str]:
    """A shade and a marker that depend on nothing but the text, so that it keeps them wherever it is drawn."""
    number = zlib.crc32(text.encode())
    return (-0.8, -0.4, 0.4, 0.8)[number % 4], MARKERS[number // 4 % len(MARKERS)]


@functools.cache
def _colour(sampler: str, shade: float) -> Colour:
    known = HUES.get(sampler)
    hue = OTHER_HUES[zlib.crc32(sampler.encode()) % len(OTHER_HUES)] if known is None else known
    word = "".join(c if c.isascii() and c.isalnum() else "-" for c in sampler)
    name = f"by-{word}" + (f"-{'light' if shade > 0 else 'deep'}-{abs(shade) * 100:.0f}" if shade else "")
    light, dark = (_hex(base + step * shade, hue) for base, step in LIGHTNESS.values())
    return Colour(name, light, dark)


def _hex(lightness: float, hue: float) -> str:
    """OKLCH to sRGB (Ottosson 2020), with as much of the chroma as the screen can show."""
    chroma = CHROMA
    while True:
        a, b = chroma * math.cos(math.radians(hue)), chroma * math.sin(math.radians(hue))
        long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
        medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
        short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
        linear = (
            4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
            -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
            -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short,
        )
        if all(-1e-4 <= v <= 1.0001 for v in linear) or chroma <= 0.0:
            break
        chroma -= 0.002
    gamma = (
        12.92 * v if v <= 0.0031308 else 1.055 * v ** (1 / 2.4) - 0.055 for v in (min(max(v, 0.0), 1.0) for v in linear)
    )
    return "#" + "".join(f"{round(255 * v):02x}" for v in gamma)
