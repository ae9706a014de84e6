"""Differences and races on workers: the same bytes wherever they run, and nothing is made or collected twice."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evenroll
from evenroll.cli import main
from evenroll.errors import Interrupted, SpecError
from evenroll.evaluation import workers as module
from evenroll.evaluation.deciding import Looking, Question
from evenroll.evaluation.episode_blocks import Task, collect_block, round_after
from evenroll.evaluation.pairs import sources_for
from evenroll.evaluation.recipes import Recipe
from tests.evaluation import worker_environments
from tests.evaluation.worker_environments import ID

SETTINGS: dict[str, Any] = {"gamma": 0.99, "seed": 3, "resets": 20}


def leaning(bias: float) -> evenroll.MLP:
    """A policy that pushes the cart to where the pole falls, and to one side by `bias`."""
    hidden = np.zeros((2, 4))
    hidden[:, 2:] = [[3.0, 1.0], [-3.0, -1.0]]
    return evenroll.MLP([(hidden, np.zeros(2))], np.array([[-1.0, 1.0], [1.0, -1.0]]), np.array([bias, 0.0]))


GOOD, BAD, WORSE = leaning(0.0), leaning(1.0), leaning(2.0)


def difference(env: Any = ID, **options: Any) -> evenroll.Difference:
    return evenroll.difference(env, GOOD, BAD, until="decided", most=40, **{**SETTINGS, "workers": 1, **options})


@pytest.fixture(scope="module")
def alone() -> evenroll.Difference:
    """The run with one worker that nothing disturbs."""
    return difference()


def without_call(result: Any) -> Any:
    return {name: value for name, value in result.to_json().items() if name != "call"}


def test_a_verdict_does_not_depend_on_the_number_of_workers(alone: evenroll.Difference) -> None:
    assert alone.verdict == "first"
    assert without_call(difference(workers=3)) == without_call(alone)


def test_nor_on_where_they_run_and_who_dies(
    alone: evenroll.Difference, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DYING_MARKER", str(tmp_path / "died"))
    killed = difference(worker_environments.dying, workers=2, executor="processes")
    assert (tmp_path / "died").exists()
    assert (killed.value, killed.low, killed.high, killed.pairs) == (alone.value, alone.low, alone.high, alone.pairs)


def test_both_policies_meet_the_same_starts(alone: evenroll.Difference) -> None:
    first, second = (result.rollouts for result in (alone.first, alone.second))
    assert first is not None
    assert second is not None
    np.testing.assert_array_equal(first.start_observations(), second.start_observations())
    assert (first.returns != second.returns).any()


def test_looks_come_at_the_ends_of_rounds() -> None:
    sources = sources_for(ID, [GOOD, BAD], "auto", [None, None], workers=2, horizon=None, deterministic=False, **SETTINGS)
    ends = itertools.accumulate(range(90), lambda end, _: round_after(end)[-1].end)
    when = Looking(sources, Question(), 150, 0.95, "return").when
    assert set(when[:-1]) <= set(ends)
    assert when[-1] == 150
    for source in sources:
        source.close()


def test_a_worker_makes_each_policy_once_although_they_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    make = Recipe.make

    def counting(recipe: Recipe) -> Any:
        made.append(1)
        return make(recipe)

    monkeypatch.setattr(Recipe, "make", counting)
    sources = sources_for(
        ID, [GOOD, BAD, WORSE], "auto", [None] * 3, workers=1, horizon=None, deterministic=False, **SETTINGS
    )  # fmt: skip
    for upto, source in itertools.product((2, 4, 6), sources):
        list(source.collect(upto, None, at_once=True))
    assert len(made) == 2 * 3  # once to look at the policy, once by the worker
    for source in sources:
        source.close()


def test_a_race_does_not_depend_on_the_number_of_workers() -> None:
    races = [evenroll.best(ID, {"good": GOOD, "bad": BAD, "worse": WORSE}, most=30, workers=n, **SETTINGS) for n in (1, 3)]
    assert without_call(races[0]) == without_call(races[1])
    assert races[0].fresh is not None
    assert races[0].fresh.sampler == "os"  # whatever the race was run with: its value is to be without any bias


def test_a_stopped_difference_goes_on_from_its_spool(
    alone: evenroll.Difference, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collected: list[tuple[str, int]] = []

    def counting(task: Task) -> Any:
        collected.append((task.key, task.block.first))
        return collect_block(task)

    def stop(told: Any) -> None:
        if told.episodes >= 6:
            raise KeyboardInterrupt

    monkeypatch.setattr(module, "collect_block", counting)
    with pytest.raises(Interrupted):
        difference(spool=tmp_path, progress=stop)
    assert collected
    assert without_call(difference(spool=tmp_path)) == without_call(alone)
    assert len(set(collected)) == len(collected)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "2"]


def test_domains_are_refused() -> None:
    with pytest.raises(SpecError, match=r"workers are for environments.*evenroll/CartPole-v0"):
        evenroll.difference("cartpole", None, None, workers=2)


def test_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    files = []
    for name, policy in (("good", GOOD), ("bad", BAD)):
        files.append(str(tmp_path / f"{name}.safetensors"))
        evenroll.save_policy(policy, files[-1])
    common = ["--gamma", "0.99", "--most", "30", "--workers", "2", "--spool"]
    for words, code in (
        (["difference", ID, "--policy", files[0], "--against", files[1], "--until-decided"], 0),
        (["gate", ID, "--policy", files[1], "--against", files[0]], 1),
        (["best", ID, "--policy", files[0], "--policy", files[1]], 0),
    ):
        monkeypatch.setattr("sys.argv", ["evenroll", *words, *common, str(tmp_path / words[0])])
        with pytest.raises(SystemExit) as ended:
            main()
        assert (ended.value.code or 0) == code, capsys.readouterr()
        assert list((tmp_path / words[0]).glob("1/block-*"))
    assert "good is the best" in capsys.readouterr().out
