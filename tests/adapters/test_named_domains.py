"""Domains by name, built in or one's own; and what a study says to an environment that is none."""

from __future__ import annotations

import sys
from pathlib import Path

import gymnasium as gym
import pytest

import evenroll
from evenroll.adapters.loading import as_domain, load_domain
from evenroll.domains.catalogue import get_domain
from evenroll.errors import SpecError
from evenroll.study.coverage import coverage

MODULE = """
from __future__ import annotations
import gymnasium as gym
import evenroll

DOMAIN = evenroll.get_domain("gridworld")
CALLS = []

def of_size(noise: float = 0.0) -> evenroll.Domain:
    return evenroll.get_domain(f"gridworld:noise={noise}")

def unannotated():
    return DOMAIN

def env():
    CALLS.append("env")
    return gym.make("CartPole-v1")

def annotated_env() -> gym.Env:
    CALLS.append("annotated")
    return gym.make("CartPole-v1")

def fails() -> evenroll.Domain:
    raise ValueError("no such mountain")
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "some_domains.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("some_domains", None)


def test_built_in_ones_and_ones_own() -> None:
    grid = get_domain("gridworld")
    assert str(load_domain("gridworld:noise=2")) == "gridworld:noise=2"
    assert str(load_domain("some_domains:DOMAIN")) == str(load_domain("some_domains:unannotated")) == "gridworld"
    assert str(load_domain("some_domains:of_size:noise=2")) == "gridworld:noise=2"
    assert as_domain(grid) is grid


def test_what_is_no_domain_is_left_to_others() -> None:
    import some_domains  # type: ignore[import-not-found]

    for text in ("CartPole-v1", "some_domains:env", "some_domains:annotated_env", "some_domains:CALLS", "a/path.zip"):
        assert load_domain(text) is None
    assert some_domains.CALLS == ["env"]  # whoever says what it returns is not called in vain


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("some_domains:of_size:nose=2", "unknown parameter 'nose'.*did you mean noise"),
        ("some_domains:of_size:noise=x", "noise must be a number"),
        ("some_domains:DOMAIN:noise=2", "made already"),
        ("some_domains:fails", "some_domains:fails failed: ValueError: no such mountain"),
        ("some_domains:nothing", "cannot find"),
        ("gridwurld", "did you mean gridworld"),
    ],
)
def test_mistakes_are_named(text: str, why: str) -> None:
    with pytest.raises(SpecError, match=why):
        as_domain(text)


def test_a_study_says_what_to_use_for_an_environment() -> None:
    for env in (gym.make("CartPole-v1"), "CartPole-v1", "some_domains:env", None):
        for study in (evenroll.compare, lambda domain, methods: coverage(domain, methods[0])):
            with pytest.raises(SpecError, match="for an environment use evaluate or difference"):
                study(env, ["os/mc"])
