"""The parts of a report: what is known is told with its numbers, what is not is told in words, and nothing is drawn as 0."""

from __future__ import annotations

import math
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest

import evenroll
from evenroll.evaluation import report_parts as parts
from evenroll.evaluation.diagnosis import diagnose
from evenroll.evaluation.result import Quantity
from tests.evaluation.test_presenting import half, upright
from tests.evaluation.test_report_page import HOSTILE, read


@pytest.fixture(scope="module")
def found() -> evenroll.Evaluation:
    return evenroll.evaluate("cartpole", episodes=40)


@pytest.fixture(scope="module")
def table() -> evenroll.Evaluation:
    return evenroll.evaluate("gridworld", sampler="os", episodes=80, seed=3)


def test_warnings_come_first_and_their_absence_is_said(found: evenroll.Evaluation) -> None:
    assert "There are no warnings." in read(parts.alerts(parts.warnings_of(found), ()))
    bad = replace(found, warnings=(HOSTILE,), low=None, high=None, why="too few", interrupted=True)
    box = parts.alerts(parts.warnings_of(bad), ["a note"])
    assert box.index('class="warnings') < box.index('class="notes')
    for text in (HOSTILE, "There is no interval: too few.", "Collecting was interrupted", "A note."):
        assert text in read(box)
    assert "There are no warnings." not in read(box)


def test_notes_say_what_is_good_to_know(found: evenroll.Evaluation) -> None:
    told = parts.notes_of(replace(found, note="n", remark="r", no_resets="s", fallback=True, resets=1234))
    assert told[:3] == ["n", "r", "s"]
    assert "wider than its method" in told[3]
    assert told[4].startswith("1,234 further resets")
    assert parts.notes_of(replace(found, note=None, remark=None, no_resets=None, fallback=False, resets=0)) == []


@pytest.mark.parametrize("part", [parts.settled, parts.returns, parts.places])
def test_without_data_there_are_words_and_no_picture(found: evenroll.Evaluation, part) -> None:
    told = part(evenroll.Evaluation.from_json(found.to_json()))
    assert "read from JSON or unpickled" in read(told)
    assert "<svg" not in told
    assert "<td>" not in told


def test_too_few_episodes_and_equal_returns_are_said(found: evenroll.Evaluation) -> None:
    few = evenroll.evaluate("cartpole", episodes=5)
    assert "at least 10 episodes, not 5" in read(parts.settled(few))
    assert "<svg" not in parts.settled(few)
    assert "too few episodes" in read(parts.noise(few))
    assert found.rollouts is not None
    same = replace(found, rollouts=replace(found.rollouts, returns=np.full(40, 0.25)), noise=None)
    assert "All 40 returns were equal: 0.25." in read(parts.returns(same))
    assert "<svg" not in parts.returns(same) + parts.noise(same)
    assert "exact up to rounding" in read(parts.noise(replace(found, exact=True)))
    none = replace(found, rollouts=replace(found.rollouts, returns=np.zeros(0)))
    assert "No episode has finished." in read(parts.returns(none))


def test_quantities_are_those_of_the_result(found: evenroll.Evaluation) -> None:
    text = read(parts.quantities(found))
    for one in (found, found.mean, *found.quantities.values()):
        assert one is not None
        assert str(one).split(" ± ")[0].split(" (")[0] in text
    assert {"return", "length"} == set(found.quantities)
    without = replace(found, low=None, high=None, mean=Quantity(1.0, None, None), quantities={})
    cells = parts.quantities(without).split("<td>")
    assert sum(cell.startswith("none<") for cell in cells) == 2


def test_endings_are_counted(found: evenroll.Evaluation) -> None:
    data = found.rollouts
    assert data is not None
    success = np.zeros(40)
    success[:7] = 1.0
    one = replace(found, terminated=33, truncated=7, unfinished=1, rollouts=replace(data, success=success))
    text = read(parts.endings(one))
    for words in ("terminated the environment ended them 33 82.5%", "truncated a time limit cut them 7 17.5%"):
        assert words in text
    assert "does not count 1" in text
    assert "successful as the environment reports 7 17.5%" in text
    assert "reports no success not known" in read(parts.endings(found))
    told = replace(evenroll.Evaluation.from_json(found.to_json()), quantities={"success": Quantity(0.375, None, None)})
    assert "37.5%" in read(parts.endings(told))
    assert "–" in read(parts.endings(replace(found, episodes=0, terminated=0, truncated=0)))  # no share of nothing


def test_distances_are_those_of_the_result_and_missing_ones_are_named(found: evenroll.Evaluation) -> None:
    text = read(parts.balance(found))
    for number in (found.kl, found.gradient, found.behavior_kl, found.behavior_largest):
        assert f"{number:.3g}" in text
    gone = read(parts.balance(replace(found, kl=None, gradient=math.nan, behavior_kl=math.inf)))
    assert gone.count("not known: ") == 2
    assert "infinite" in gone
    assert "effective sample size" not in text
    weighted = read(parts.balance(replace(found, effective_sample_size=12.34, largest_weight=0.056)))
    assert "12.3" in weighted
    assert "5.6 %" in weighted


def test_places_are_those_of_a_diagnosis(table: evenroll.Evaluation, found: evenroll.Evaluation) -> None:
    for one, policy in ((table, "gridworld"), (found, "cartpole")):
        worst = diagnose(one.rollouts, evenroll.get_domain(policy).policy())
        text = read(parts.places(one))
        first = worst.cells[0]
        assert f"{first.where} {first.action} {first.taken:.4g} {first.expected:.4g} {first.z:+.2f}".replace(
            " -", " −"
        ) in text.replace(" -", " −")
        assert f"excess {worst.excess:.2g}" in text
        assert f"{worst.chance:.1f}" in text
    assert "x0 is the first number" in read(parts.places(found))
    assert "x0" not in read(parts.places(table))


def test_of_two_actions_one_is_told(found: evenroll.Evaluation) -> None:
    text = read(parts.places(found))
    assert text.count("anywhere") <= 1


def test_places_of_a_policy_that_runs_elsewhere_and_of_none() -> None:
    env = gym.make("CartPole-v1")
    assert "action 1" in read(parts.places(evenroll.evaluate(env, upright, episodes=12)))
    certain = evenroll.evaluate(env, lambda x: int(x[2] > 0), episodes=12)
    assert "probabilities are not known" in read(parts.places(certain))


def test_places_are_not_looked_at_where_that_takes_long(found: evenroll.Evaluation, monkeypatch) -> None:
    monkeypatch.setattr(parts, "MOST_STEPS", 10)
    assert "`evenroll diagnose` does" in read(parts.places(found))


def test_settings_and_versions(found: evenroll.Evaluation) -> None:
    text = read(parts.settings(replace(found, seed=17, policy=None, domain=HOSTILE)))
    assert HOSTILE in text
    for words in ("seed 17", "sampler auto", "estimator score", "γ 0.99", "95 %, score", "policy not known"):
        assert words in text
    assert f"evenroll {evenroll.__version__}" in text
    assert f"NumPy {np.__version__}" in text
    assert f"Gymnasium {gym.__version__}" in text


def test_what_repeats_it(found: evenroll.Evaluation) -> None:
    assert "result = evenroll.evaluate('cartpole', episodes=40)" in read(parts.repeated(found, None))
    assert "evenroll evaluate 'a b'" in read(parts.repeated(found, "evenroll evaluate 'a b'"))
    assert "not known" in read(parts.repeated(evenroll.Evaluation.from_json(found.to_json()), None))
    assert "gives the same numbers" not in read(parts.repeated(replace(found, interrupted=True), "evenroll evaluate x"))


def test_the_line_that_repeats_a_difference_names_objects() -> None:
    gap = evenroll.difference(gym.make("CartPole-v1"), upright, half, episodes=12, seed=2)
    assert gap._call == "evenroll.difference(env, first, second, episodes=12, seed=2)"


def test_the_noise_needs_no_data(found: evenroll.Evaluation) -> None:
    told = evenroll.Evaluation.from_json(found.to_json())
    assert parts.noise(told).count("<svg") == 2  # one for each width of the page
    assert found.noise_in_words() in read(parts.noise(told))
