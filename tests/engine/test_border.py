"""The border in front of compiled code: wrong numbers are refused in words, and never end the process."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from evenroll.collection.lanes import Lanes
from evenroll.collection.trial import Driver
from evenroll.domains.gymnasium_env import DomainEnv
from evenroll.engine import border
from evenroll.engine.pieces import Piece
from evenroll.errors import DataError, SpecError
from evenroll.evaluation.collector import Collector
from evenroll.samplers import Auto
from tests.engine.entrances import network, table
from tests.helpers import ROOT


def test_no_wrong_number_ends_the_process() -> None:
    """Every entrance, an attack of every kind; `make attack` carries out all.

    Before there was a border about one attack in ten ended in SIGSEGV or SIGABRT.
    """
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.engine.entrances", "--short"],
        capture_output=True, text=True, cwd=ROOT,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-3000:]
    came = json.loads(run.stdout)
    assert came["wrong"] == []
    assert came["refused"] > 3000
    assert came["taken"] > 500


LOADED = """
import pickle, sys
import numpy as np
thing, use = pickle.load(open(sys.argv[1], "rb"))
for _ in range(50):
    result = eval(use)
print(result)
"""


@pytest.mark.parametrize("name", ["collector", "lanes", "driver", "environment", "policy", "table"])
def test_what_holds_addresses_works_in_another_process(tmp_path: Path, name: str) -> None:
    """There the machine code lies elsewhere; a pickled address would be called all the same."""
    env = DomainEnv("gridworld")
    env.reset(seed=0)
    things = {
        "collector": (Collector(network()), "(thing.act(np.zeros(4)), thing.observe(1.0, True))[1]"),
        "lanes": (Lanes(table(), Auto(), (0,), gamma=1.0), "thing.advance(np.ones((1, 1)), np.ones(1, int))"),
        "driver": (
            Driver(table(), Auto(), (0,), gamma=1.0, horizon=9),
            "thing.run(__import__('evenroll').get_domain('gridworld').environment(None), episodes=3).episodes",
        ),
        "environment": (env, "thing.step(1)[4]"),
        "policy": (network(), "thing.log_prob(np.zeros(4), 1) < 0"),
        "table": (table(), "thing.log_prob(3, 1) < 0"),
    }
    thing, use = things[name]
    eval(use)  # so that there are addresses
    if name == "collector":
        thing = Collector(network())
        thing.act(np.zeros(4))
        thing.observe(1.0, True)
    (tmp_path / "thing").write_bytes(pickle.dumps((thing, use)))
    run = subprocess.run(
        [sys.executable, "-c", LOADED, str(tmp_path / "thing")], capture_output=True, text=True, cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "1"},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-2000:]
    assert run.stdout.strip() == str(eval(use))


def test_a_collector_that_was_pickled_goes_on_as_if_nothing_had_happened() -> None:
    straight, rng = Collector(network(), gamma=0.9), np.random.default_rng(0)
    observations = rng.standard_normal((40, 4))

    def go(collector: Collector, part: np.ndarray) -> None:
        for i, observation in enumerate(part):
            collector.act(observation)
            collector.observe(1.0, i % 5 == 4)

    go(straight, observations)
    first = Collector(network(), gamma=0.9)
    go(first, observations[:20])
    second = pickle.loads(pickle.dumps(first))
    go(second, observations[20:])
    np.testing.assert_array_equal(straight.rollouts().actions, second.rollouts().actions)
    np.testing.assert_array_equal(straight.rollouts().log_b, second.rollouts().log_b)


def test_a_piece_is_pickled_by_name_or_not_at_all() -> None:
    from evenroll.domains.gridworld import step

    assert pickle.loads(pickle.dumps(step)) is step
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(Piece(lambda: None, step.interface, False))


def test_the_entrances_themselves() -> None:
    assert border.shaped("x", [[1, 2]], (1, 2)).flags.c_contiguous
    assert border.single("x", 3, 1).tolist() == [3.0]
    assert border.flags("x", [True, False], 2).tolist() == [1, 0]
    assert border.ends("x", [2, 5], 5).tolist() == [2, 5]
    for wrong in ([0, 5], [5, 2], [2, 6], [2.5, 5.0], [-1, 3]):
        with pytest.raises(DataError, match="must grow"):
            border.ends("the ends", wrong, 5, DataError)
    with pytest.raises(SpecError, match=r"x must have shape \[2\], not \[3\]"):
        border.shaped("x", np.zeros(3), (2,))
    with pytest.raises(SpecError, match="x must be finite"):
        border.shaped("x", [1e39], (1,), dtype=np.float32)
    with pytest.raises(SpecError, match="real numbers, not of type datetime64"):
        border.numbers("x", np.array(["2020-01-01"], dtype="datetime64[D]"))
    with pytest.raises(SpecError, match="a state outside 0 … 4"):
        border.places("a state", np.array([[5.0]]), (5,))
    given = np.zeros(3)
    assert border.memory("x", given, np.float64, 3) is given
    with pytest.raises(SpecError, match="at least 4 numbers"):
        border.memory("x", given, np.float64, 4)
