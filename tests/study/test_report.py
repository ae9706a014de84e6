"""report.html, also in a real browser."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from evenroll.study.blocks import Work
from evenroll.study.charts import Series, charts
from evenroll.study.experiments import METHODS, QUICK, targets
from evenroll.study.palette import look_of
from evenroll.study.report import write_report
from evenroll.study.results import Results, Trialled
from tests.browsers import TEXT_SIZES, opened
from tests.study.conftest import RUN
from tests.study.invented import exact
from tests.study.test_experiments import NAMES


def test_the_page_is_one_file_and_says_how_small_it_is(run: Path) -> None:
    page = (run / "report.html").read_text()
    assert "Smaller than the paper" in page
    assert "3 trials" in page
    for outside in ('src="http', "url(http", "@import", '<link rel="stylesheet', "fetch(", "XMLHttpRequest"):
        assert outside not in page
    assert page.count('class="verdict"') > 15 + 3  # three of them count the verdicts


READY = "html[data-ready=yes]"  # set by the page's script when it has drawn everything


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_the_page_in_a_browser(chrome: Any, run: Path, width: int, scheme: str) -> None:
    with opened(chrome, run / "report.html", width, scheme, READY) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= width  # nothing sticks out of a phone
        dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 26)"
        assert dark == (scheme == "dark")
        page.click("#theme")
        assert (page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 26)") != dark

        data = json.loads(page.inner_text("#data") or page.evaluate("document.getElementById('data').textContent"))
        for section in data["sections"]:
            marks = page.evaluate(
                "name => [...document.querySelectorAll(`#charts-${name} svg`)].map(s => s.querySelectorAll('.mark').length)",
                section["name"],
            )
            assert len(marks) == len(section["charts"]), section["name"]
            assert all(m > 0 for m in marks), section["name"]
            assert "NaN" not in page.inner_html(f"#charts-{section['name']}")

        def drawn() -> int:
            return page.evaluate("document.querySelectorAll('#charts-fig2 .mark').length")

        everything = drawn()
        chip = page.locator("#legend-fig2 [data-key='ros/mc']")
        chip.click()
        assert chip.get_attribute("aria-pressed") == "false"
        assert drawn() < everything
        chip.click()
        assert drawn() == everything
        page.locator("#legend-fig2 .published-toggle").click()
        assert drawn() < everything
        chart = page.locator("#charts-fig2 svg").first
        chart.scroll_into_view_if_needed()
        box = chart.bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        tip = page.locator("#charts-fig2 .tip").first
        assert tip.is_visible()
        assert "environment steps" in tip.inner_text()

        page.locator("#duel").scroll_into_view_if_needed()
        counted = page.locator("#duel .side").nth(1).locator(".num").first
        before = counted.inner_text()
        page.wait_for_function(
            "t => document.querySelectorAll('#duel .side')[1].querySelector('.num').textContent !== t", arg=before
        )


def written(names: list[str], directory: Path) -> str:
    """The page of these targets, from results that were not run."""
    chosen = [target for name, target in targets(QUICK).items() if name in names]
    found: dict[Work, Trialled] = {}
    for target in chosen:
        found |= exact(target, lambda work: 0.01 if work.collect == "os" else 0.004, trials=4).found
    return write_report(chosen, Results(found), directory / "report.html", QUICK).read_text()


ALONE = {  # words that a page may only have if it shows the target
    "theory": ["theory section", "Theorem 3"],
    "fig14": ["A smaller <a", "authors' network"],
    "table3": ["published ratio of 0.30"],
}


@pytest.mark.parametrize("name", NAMES)
def test_a_page_points_to_nothing_that_it_does_not_have(name: str, tmp_path: Path) -> None:
    """A page with one target: every link leads somewhere, every section is linked, and no sentence is about another one."""
    page = written([name], tmp_path)
    visible = page[: page.index('<script type="application/json"')]
    sections = set(re.findall(r'<h2 id="([^"]+)"', visible))
    assert {"idea", name, "differences"} <= sections
    assert set(re.findall(r'href="#([^"]*)"', visible)) == sections
    assert sections & set(NAMES) == {name}
    assert ("claims" in sections) == ('class="verdict"' in visible) == (name not in ("fig5", "table3", "table4"))
    for target, words in ALONE.items():
        if target != name and (target, name) != ("table3", "table4"):
            assert [word for word in words if word in visible] == []
    for mentioned in re.findall(r"[Ff]igure (\d+)", visible):
        assert f"fig{mentioned}" == name or f"the paper’s figure {mentioned}" in visible
    assert ("Smaller than the paper" in visible) == (name not in ("fig5", "theory"))


def test_a_page_with_two_figures_links_one_to_the_other(tmp_path: Path) -> None:
    page = written(["fig4", "fig12"], tmp_path)
    assert 'The noise panels of <a href="#fig4">figure 4</a>' in page
    assert "100 where a setting is varied" in page


COLOURS = """() => {
  const found = new Map();
  for (const node of document.querySelectorAll("body, body *")) {
    const style = getComputedStyle(node);
    for (const kind of ["color", "backgroundColor", "borderTopColor", "borderLeftColor", "fill", "stroke"]) {
      const [r, g, b, a] = style[kind].match(/[\\d.]+/g)?.map(Number) ?? [0, 0, 0, 0];
      if (a === 0 || Math.max(r, g, b) - Math.min(r, g, b) < 24) continue; // ink and grey, which are a little blue
      const name = "#" + [r, g, b].map((v) => v.toString(16).padStart(2, "0")).join("");
      found.set(name, [...(found.get(name) ?? []), node.getAttribute("class") ?? node.tagName]);
    }
  }
  return Object.fromEntries(found);
}"""  # every colour that is neither ink nor grey, and where it is


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_text_is_legible_and_colours_are_those_of_ways_to_collect(chrome: Any, run: Path, width: int, scheme: str) -> None:
    """No text is smaller than 11 pixels as it is shown, charts stand two in a row at most, actions and verdicts have no
    colour, and every colour that there is belongs to a method."""
    with opened(chrome, run / "report.html", width, scheme, READY) as page:
        page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
        assert page.evaluate(TEXT_SIZES) == []
        assert page.evaluate("document.querySelectorAll('svg text').length") > 100
        rows = page.evaluate(
            "[...document.querySelectorAll('#charts-fig2 figure')].map(f => Math.round(f.getBoundingClientRect().top))"
        )
        assert [rows.count(top) for top in sorted(set(rows))] == ([2, 2] if width == 1280 else [1, 1, 1, 1])

        shown = page.evaluate(COLOURS)
        theirs = {getattr(s.look.colour, scheme) for s in every_series()}
        assert set(shown) <= theirs
        assert {getattr(look_of(m).colour, scheme) for m in METHODS} <= set(shown)
        places = {place for found in shown.values() for place in found}
        assert not places & {"A", "B", "verdict", "want", "badge", "soft", "BUTTON", "SUMMARY", "BODY"}

        stroke = "document.querySelector(`#legend-fig2 [data-key='${KEY}'] path`)"
        for method in METHODS:  # the colour of the figures' files is the one of the light page
            painted = page.evaluate(f"getComputedStyle({stroke.replace('${KEY}', method)}).stroke")
            hexadecimal = "#" + "".join(f"{int(v):02x}" for v in re.findall(r"\d+", painted))
            assert hexadecimal == getattr(look_of(method).colour, scheme)


def every_series() -> list[Series]:
    chosen = [target for name, target in targets(QUICK).items() if name in RUN]
    return [s for t in chosen for c in charts(t, exact(t, lambda work: 0.01, trials=4)) for s in c.series]
