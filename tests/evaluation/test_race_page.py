"""The page of a race: its numbers are those of the result, and what is missing is said."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

import evenroll
from evenroll.evaluation.race_page import race_lines, race_page
from tests.evaluation.test_deciding import Noisy
from tests.evaluation.test_pairs import Always


@pytest.fixture(scope="module")
def race() -> evenroll.Race:
    policies = {"good": Always(40), "<b>bad</b>": Always(10), "fair": Always(34)}
    return evenroll.best(Noisy(), policies, most=150, resets=0)


def test_numbers_and_names(race: evenroll.Race, tmp_path: Path) -> None:
    text = race.report(tmp_path / "race.html").read_text()
    assert text == race_page(race)
    assert "<h1>good is the best</h1>" in text
    assert "&lt;b&gt;bad&lt;/b&gt;" in text
    assert "<b>bad</b>" not in text
    for runner in race.runners:
        assert f"<td>{runner.value:.5g}</td>" in text
    assert race.fresh is not None
    assert race.fresh.number() in text
    assert f"{race.episodes:,}" in text
    assert "evenroll.best(env, policies" in text
    assert not re.search(r"(src|href)=\"[^#\"]|url\(|@import", text)


def test_every_policy_has_a_line(race: evenroll.Race) -> None:
    picture = str(race_lines(race))
    assert picture.count('class="estimate"') * 2 == picture.count('class="second-line"')
    assert "out after" in picture


def test_what_is_missing_is_said(race: evenroll.Race) -> None:
    text = race_page(replace(race, decided=False, fresh=None, history=(), _call=None))
    assert "It is not decided" in text
    assert "<h1>good leads</h1>" in text
    assert "fresh episodes" not in text
