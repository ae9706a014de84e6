"""A result as one web page: its numbers, its words, nothing from outside; and in a real browser."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import gymnasium as gym
import numpy as np
import pytest

import evenroll
from evenroll.errors import EvenrollError
from evenroll.evaluation.report_page import difference_page, evaluation_page
from tests.browsers import TEXT_SIZES, opened
from tests.evaluation.test_presenting import half, upright
from tests.text.test_page import contrast

HOSTILE = "<img src=x onerror=\"alert(1)\"> & </title></style><script>'x'</script>"
VOID = {"meta", "img", "br", "hr", "link"}


class Reader(HTMLParser):
    """Collects the text of a page, and raises where tags do not match."""

    def __init__(self) -> None:
        super().__init__()
        self.text: list[str] = []
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text.append(data)


def parsed(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    return reader


def read(page: str) -> str:
    """What a reader sees, with single spaces."""
    return " ".join(" ".join(parsed(page).text).split())


@pytest.fixture(scope="module")
def found() -> evenroll.Evaluation:
    return evenroll.evaluate("cartpole", episodes=80)


@pytest.fixture(scope="module")
def gap() -> evenroll.Difference:
    return evenroll.difference(gym.make("CartPole-v1"), upright, half, episodes=12)


def test_an_evaluation_is_told_whole(found: evenroll.Evaluation) -> None:
    page = evaluation_page(found)
    text = read(page)
    assert f"<title>What the policy is worth in cartpole: {found.number()}</title>" in page
    for words in (found.number(), found.worth(), found.noise_in_words(), str(found.mean), f"{found.steps:,}"):
        assert words in text
    assert f'<p class="number">{found.number()}</p>' in page  # it stands in the title, too
    assert f"~{found.on_policy_episodes:,.0f}" in text
    names = ("found", "noise", "quantities", "endings", "balance", "places", "settings", "repeat")
    assert [tag[1]["id"] for tag in parsed(page).tags if tag[0] == "section" and "id" in tag[1]] == list(names)
    assert "on-policy episodes for the same" not in read(evaluation_page(replace(found, on_policy_episodes=None)))


def test_a_difference_is_told_whole(gap: evenroll.Difference) -> None:
    page = difference_page(gap)
    text = read(page)
    first, second = gap.rollouts
    assert first is not None
    assert second is not None
    assert f'<p class="number">{gap.number()}</p>' in page
    better = int(np.count_nonzero(first.returns > second.returns))
    equal = int(np.count_nonzero(first.returns == second.returns))
    assert f"the first policy did better in {better} of 12 pairs, the second in {12 - better - equal}, and {equal}" in text
    for words in (gap.number(), gap.worth(), gap.in_short(), gap.first.number(), gap.second.number(), f"± {gap.alone:.2g}"):
        assert words in text
    assert f"terminated {gap.first.terminated} {gap.second.terminated}" in text
    assert "evenroll.difference(env, first, second, episodes=12)" in text


def test_verdicts_of_every_kind(gap: evenroll.Difference) -> None:
    for low, high, words in ((1.0, 2.0, "The first policy is better"), (-2.0, -1.0, "The second policy is better"),
                             (-1.0, 1.0, "Which is better cannot be told yet")):  # fmt: skip
        assert f"<h1>{words} in CartPole-v1</h1>" in difference_page(replace(gap, low=low, high=high))
    none = replace(gap, low=None, high=None, why="all were equal", interrupted=True)
    text = read(difference_page(none))
    assert "There is no interval: all were equal." in text
    assert "fewer starts are compared" in text


def test_what_is_missing_is_said(gap: evenroll.Difference, found: evenroll.Evaluation) -> None:
    told = evenroll.Difference.from_json(gap.to_json())
    page = difference_page(told)
    assert "its pairs cannot be drawn" in read(page)
    assert "polyline" not in page
    assert gap.number() in read(page)
    first = gap.first.rollouts
    assert first is not None
    same = replace(gap, second=replace(gap.second, rollouts=replace(first, returns=first.returns - 2.0)))
    assert "All 12 differences were equal: 2." in read(difference_page(same))
    none = evaluation_page(replace(found, low=None, high=None, why="too few"))
    assert "There is no interval: too few." in read(none)
    assert "±" not in read(none).partition("plain mean")[0]
    assert 'class="band"' not in none.partition("The returns")[2].partition("</figure>")[0].replace('<i class="band">', "")


def test_nothing_from_outside_is_taken_for_html(found: evenroll.Evaluation, gap: evenroll.Difference) -> None:
    bad = {"domain": HOSTILE, "policy": HOSTILE, "sampler": HOSTILE, "estimator": HOSTILE, "remark": HOSTILE}
    worse = {"warnings": (HOSTILE,), "note": HOSTILE, "no_resets": HOSTILE, "interval": HOSTILE}
    one = replace(found, **bad, **worse, quantities={HOSTILE: found.quantities["length"]}, _call=HOSTILE)
    two = replace(gap, first=one, second=one, note=HOSTILE, why=HOSTILE)
    for page in (evaluation_page(one, HOSTILE), evaluation_page(one), difference_page(two, HOSTILE), difference_page(two)):
        reader = parsed(page)
        assert {tag for tag, _ in reader.tags} & {"script", "img", "iframe", "object", "a"} == set()
        assert not [name for _, attributes in reader.tags for name in attributes if name.startswith("on")]
        assert "".join(reader.text).count(HOSTILE) >= 6


def test_a_page_is_one_file_without_script_or_reference(found: evenroll.Evaluation, gap: evenroll.Difference) -> None:
    for page in (evaluation_page(found), difference_page(gap)):
        for outside in ("src=", "href=", "url(", "@import", "<script", "<link", "<iframe", "javascript:"):
            assert outside not in page
        assert set(re.findall(r"https?://[^\"' ]+", page)) <= {"http://www.w3.org/2000/svg"}  # a name, not an address
        assert "nan" not in re.sub(r"[a-zA-Z]*nan[a-zA-Z]+|[a-zA-Z]+nan", "", page)
        assert "None" not in read(page)


def test_drawings_are_named_and_tables_have_headings(found: evenroll.Evaluation, gap: evenroll.Difference) -> None:
    for page in (evaluation_page(found), difference_page(gap)):
        drawings = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
        assert len(drawings) >= 6
        for drawing in drawings:
            root = ElementTree.fromstring(drawing)
            assert root.get("role") == "img"
            assert (root[0].tag.rpartition("}")[2], bool(root[0].text)) == ("title", True)
        tables = re.findall(r"<table>.*?</table>", page, re.DOTALL)
        assert len(tables) >= 4
        for table in tables:
            assert table.count('scope="col"') >= 2
            assert table.count('scope="row"') == table.count("<tr>") - 1


def test_it_is_written_as_a_whole_under_a_name_of_a_page(
    found: evenroll.Evaluation, gap: evenroll.Difference, tmp_path: Path
) -> None:
    for one in (found, gap):
        assert one.report(str(tmp_path / "r.html"), "evenroll …") == tmp_path / "r.html"
        assert "evenroll …" in (tmp_path / "r.html").read_text()
        with pytest.raises(EvenrollError, match=r"ends in \.html"):
            one.report(tmp_path / "r.pdf")
    assert [p.name for p in tmp_path.iterdir()] == ["r.html"]


def test_the_same_result_gives_the_same_page(found: evenroll.Evaluation) -> None:
    assert evaluation_page(found) == evaluation_page(found)


# ---- in a browser ---------------------------------------------------------------------------------------------------

TOO_WIDE = """() => [...document.querySelectorAll(".scroll, pre, figure, svg")]
    .filter((e) => e.getClientRects().length && (e.scrollWidth > e.clientWidth + 1
        || e.getBoundingClientRect().right > innerWidth)).map((e) => e.outerHTML.slice(0, 200))"""
CLIPPED = """() => [...document.querySelectorAll("svg text")].filter((t) => t.getClientRects().length).filter((t) => {
    const own = t.getBoundingClientRect(), all = t.closest("svg").getBoundingClientRect();
    return own.left < all.left - 1 || own.right > all.right + 1 || own.bottom > all.bottom + 1;
}).map((t) => t.textContent)"""
COLOURS = """() => [...document.querySelectorAll(
        ".number, .lead, .soft, .missing, dt, dd, li, th, td, small, figcaption, .legend, pre code, footer")]
    .filter((e) => e.getClientRects().length).map((e) => {
        let ground = e;
        while (getComputedStyle(ground).backgroundColor === "rgba(0, 0, 0, 0)") ground = ground.parentElement;
        return [getComputedStyle(e).color, getComputedStyle(ground).backgroundColor, e.textContent.slice(0, 40)];
    })"""


def hexadecimal(colour: str) -> str:
    return "#" + "".join(f"{int(v):02x}" for v in re.findall(r"\d+", colour)[:3])


@pytest.fixture(scope="module")
def pages(found: evenroll.Evaluation, gap: evenroll.Difference, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Ordinary pages, and ones with long names, many warnings and large numbers."""
    place = tmp_path_factory.mktemp("pages")
    long = {"domain": "VeryLongNameOfAnEnvironment" * 5 + "-v0", "policy": "p" * 150, "warnings": (HOSTILE, "w" * 200)}
    wide = replace(found, **long, value=-123456789.125, low=-123456790.0, high=-123456788.25, on_policy_episodes=1.5e9)
    made = {"evaluation": found, "wide": wide, "json": evenroll.Evaluation.from_json(found.to_json()), "difference": gap}
    made["wide difference"] = replace(gap, first=wide, second=wide)
    return {name: one.report(place / f"{name}.html", f"evenroll {'x' * 200}") for name, one in made.items()}


@pytest.mark.parametrize("name", ["evaluation", "wide", "json", "difference", "wide difference"])
@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (390, "light"), (1280, "light"), (1280, "dark")])
def test_the_page_in_a_browser(chrome: Any, pages: dict[str, Path], name: str, width: int, scheme: str) -> None:
    """Nothing sticks out of a phone or of a drawing, text is legible in size and contrast, and dark is dark."""
    with opened(chrome, pages[name], width, scheme) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(TOO_WIDE) == []
        assert page.evaluate(CLIPPED) == []
        assert page.evaluate(TEXT_SIZES) == []
        dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 26)"
        assert dark == (scheme == "dark")
        shown = page.evaluate("[...document.querySelectorAll('svg')].filter(s => s.getClientRects().length).length")
        assert shown == page.evaluate("document.querySelectorAll('svg').length") / 2  # each is drawn for one of two widths
        poor = [(text, a, b) for a, b, text in page.evaluate(COLOURS) if contrast(hexadecimal(a), hexadecimal(b)) < 4.5]
        assert poor == []


def test_paper_is_white_and_nothing_is_cut_off(chrome: Any, pages: dict[str, Path]) -> None:
    with opened(chrome, pages["difference"], 794, "dark") as page:  # the width of A4
        page.emulate_media(media="print", color_scheme="dark")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
        assert page.evaluate("document.documentElement.scrollWidth") <= 794
        assert page.evaluate(CLIPPED) == []
