"""One evaluation on many workers: the same bytes wherever it runs and whoever dies, and nothing is collected twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import evenroll
from evenroll.collection.balance import Balance
from evenroll.collection.merging import sums_of
from evenroll.collection.rollouts import Rollouts
from evenroll.domains.catalogue import get_domain
from evenroll.errors import EnvironmentFault, EvenrollError, Interrupted, SpecError
from evenroll.evaluation import workers as module
from evenroll.evaluation.episode_blocks import Block, Collected, Task, collect_block, round_after
from evenroll.evaluation.workers import WorkersSource
from evenroll.executors.pool import Pool
from tests.evaluation import worker_environments
from tests.evaluation.worker_environments import ID
from tests.helpers import IDS, ROOT

EPISODES = 70  # with which some rounds have 1, 2 and 4 blocks
SETTINGS: dict[str, Any] = {"gamma": 0.99, "seed": 3, "resets": 20}
POLICY = get_domain("cartpole").policy()


def result(episodes: int = EPISODES, env: Any = ID, policy: Any = POLICY, **options: Any) -> evenroll.Evaluation:
    return evenroll.evaluate(env, policy, episodes=episodes, **{**SETTINGS, "workers": 1, **options})


def same(a: evenroll.Evaluation, b: evenroll.Evaluation) -> None:
    assert a.to_json() == b.to_json()
    same_rollouts(a.rollouts, b.rollouts)


def same_rollouts(a: Rollouts | None, b: Rollouts | None) -> None:
    assert a is not None
    assert b is not None
    for name in ("returns", "ends", "terminated", "observations", "actions", "rewards", "log_e", "log_b", "resets"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)


@pytest.fixture(scope="module")
def alone() -> evenroll.Evaluation:
    """The run with one worker that nothing disturbs."""
    return result()


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The first episodes of the blocks that threads of this process collect from now on."""
    seen: list[int] = []

    def counting(task: Task) -> Any:
        seen.append(task.block.first)
        return collect_block(task)

    monkeypatch.setattr(module, "collect_block", counting)
    return seen


@pytest.mark.parametrize("workers", [2, 7])
def test_the_bytes_do_not_depend_on_the_number_of_workers(alone: evenroll.Evaluation, workers: int) -> None:
    same(alone, result(workers=workers))


def test_processes_give_the_bytes_of_threads_although_one_is_killed(
    alone: evenroll.Evaluation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DYING_MARKER", str(tmp_path / "died"))
    killed = result(env=worker_environments.dying, workers=2, executor="processes")
    assert (tmp_path / "died").exists()
    same_rollouts(killed.rollouts, alone.rollouts)


def test_a_dask_cluster_gives_the_bytes_of_threads_although_a_worker_is_killed(alone: evenroll.Evaluation) -> None:
    pytest.importorskip("distributed")
    from tools.chaos import cluster

    with cluster(2) as machines:
        killed: list[int] = []

        def kill(told: Any) -> None:
            if told.episodes >= 40 and not killed:
                victim = machines.workers[0]
                victim.kill()
                victim.wait()
                killed.append(victim.pid)

        same(alone, result(executor=f"dask://127.0.0.1:{machines.port}", workers=None, progress=kill))
        assert killed


def test_it_goes_on_as_if_it_had_never_stopped(alone: evenroll.Evaluation) -> None:
    """A target that is looked at again and again collects in parts, which end in the midst of rounds."""
    source = WorkersSource(ID, POLICY, **SETTINGS)
    for upto in (3, 33, 67, EPISODES):
        list(source.collect(upto, None, at_once=True))
        assert source.episodes == upto
        assert source.rollouts().episodes == upto
    same_rollouts(source.rollouts(), alone.rollouts)
    source.close()


def test_without_a_balance_every_split_gives_the_same_data(monkeypatch: pytest.MonkeyPatch) -> None:
    together = result(sampler="os").rollouts
    monkeypatch.setattr(module, "round_after", lambda n, balanced: round_after(n, True))
    same_rollouts(together, result(sampler="os").rollouts)


@pytest.mark.parametrize("env", ["evenroll/GridWorld-v0", "evenroll/CartPoleContinuous-v0"])
@pytest.mark.parametrize("sampler", ["auto", "ros:alpha=1"])
def test_tables_and_real_actions(env: str, sampler: str) -> None:
    policy = get_domain("gridworld" if "Grid" in env else "cartpole-continuous").policy()
    one = result(40, env, policy, sampler=sampler)
    same(one, result(40, env, policy, sampler=sampler, workers=3))
    assert one.behavior_largest > 0.0


def test_no_more_is_shown_than_was_asked_for(monkeypatch: pytest.MonkeyPatch, counted: list[int]) -> None:
    """A block is collected as a whole. What it brought beyond what was asked for is there for the next time."""
    monkeypatch.setattr(module, "round_after", lambda n, balanced: [Block(n, 4, False), Block(n + 4, 4, False)])
    with closing(WorkersSource(ID, POLICY, **SETTINGS)) as source:
        parts = []
        for upto, blocks in {6: [0, 4], 8: [0, 4], 9: [0, 4, 8]}.items():
            list(source.collect(upto, None, at_once=True))
            assert source.episodes == source.rollouts().episodes == upto
            assert len(source.last_observations()) == upto
            assert counted == blocks
            parts.append(source.rollouts().returns)
    np.testing.assert_array_equal(parts[0], parts[2][:6])


@pytest.mark.parametrize("name", ["gridworld", "cartpole"])
def test_later_rounds_start_from_what_the_earlier_ones_have_learnt(name: str) -> None:
    """After whole rounds the balance is one that has learnt all the data in a row, to rounding."""
    policy = get_domain(name).policy()
    with closing(WorkersSource(IDS[name], policy, **SETTINGS)) as source:
        list(source.collect(68, None, at_once=True))  # 32 rounds of two, one of four
        balance = source.recorder.stepper.balance  # type: ignore[union-attr]
        learnt = Balance(policy, source.sampler, (0,), gamma=0.99, initial=source.rollouts())
        sums = sums_of(source.sampler, policy)
        places = sums.memory if name == "gridworld" else sums.memory[:2]  # by now K learns from one step in sixteen
        np.testing.assert_allclose(balance.memory[places], learnt.memory[places], rtol=1e-4, atol=1e-2)
        np.testing.assert_allclose(balance.vectors[sums.vectors], learnt.vectors[sums.vectors], rtol=1e-3, atol=1e-2)
        assert float(np.abs(balance.memory[places]).sum()) > 100.0


def test_blocks_are_added_up_in_the_order_of_their_numbers() -> None:
    """Whoever is faster: (10¹⁶ + 1) − 10¹⁶ is 0 in floating point, and (10¹⁶ − 10¹⁶) + 1 is 1."""
    memories = []
    for order in ((0, 1, 2), (2, 0, 1)):
        with closing(WorkersSource("evenroll/GridWorld-v0", get_domain("gridworld").policy())) as source:
            places = len(sums_of(source.sampler, source.policy).memory)  # type: ignore[arg-type]
            source._round = [Block(i, 1, False) for i in range(3)]
            for i in order:
                gained = {"vectors": np.zeros(0), "memory": np.full(places, (1e16, 1.0, -1e16)[i])}
                source._found[source._round[i]] = Collected({}, gained)
            source._next_round()
            memories.append(source.recorder.stepper.balance.memory.copy())  # type: ignore[union-attr]
    np.testing.assert_array_equal(*memories)


# ---- the spool -----------------------------------------------------------------------------------------------------


def files(spool: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in spool.iterdir() if path.name != "lock"}


DRIVER = """
import sys, evenroll
from evenroll.domains.catalogue import get_domain
from tests.evaluation.test_workers import POLICY, SETTINGS
evenroll.evaluate("tests.evaluation.worker_environments:slow", POLICY, episodes=70, workers=2, spool=sys.argv[1], **SETTINGS)
"""


def test_a_killed_driver_is_taken_up_where_it_was(alone: evenroll.Evaluation, tmp_path: Path, counted: list[int]) -> None:
    slow, spool, whole = "tests.evaluation.worker_environments:slow", tmp_path / "spool", tmp_path / "whole"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)]), "SLOW_SECONDS": "0.2"}
    driver = subprocess.Popen([sys.executable, "-c", DRIVER, str(spool)], env=env)
    end = time.monotonic() + 300
    while len(list(spool.glob("block-*"))) < 36 and time.monotonic() < end:
        assert driver.poll() is None
        time.sleep(0.02)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    there = {int(path.name.split("-")[1]) for path in spool.glob("block-*")}
    assert 36 <= len(there) < EPISODES
    resumed = result(env=slow, spool=spool)
    assert not there & set(counted)
    assert len(there) + len(counted) == EPISODES
    same_rollouts(resumed.rollouts, alone.rollouts)
    same(resumed, result(env=slow, spool=whole, workers=2))
    assert files(spool) == files(whole)
    counted.clear()
    same(resumed, result(env=slow, spool=spool))
    assert counted == []


def test_a_spool_of_another_run_is_refused(tmp_path: Path) -> None:
    result(4, spool=tmp_path)
    result(6, spool=tmp_path)  # more of the same
    for what, other in {"seed": {"seed": 4}, "gamma": {"gamma": 0.9}, "sampler": {"sampler": "os"}}.items():
        with pytest.raises(EvenrollError, match=f"belongs to another run, with another .*{what}"):
            result(4, spool=tmp_path, **other)
    with pytest.raises(EvenrollError, match="with another policy"):
        result(4, policy=evenroll.MLP([(np.ones((3, 4)), np.zeros(3))], np.ones((2, 3)), np.zeros(2)), spool=tmp_path)


def test_a_damaged_block_is_collected_again_and_named(tmp_path: Path, counted: list[int]) -> None:
    whole = result(12, spool=tmp_path)
    path = tmp_path / "block-00000007-1.safetensors"
    data = bytearray(path.read_bytes())
    good = bytes(data)
    data[-9] ^= 1
    path.write_bytes(bytes(data))
    counted.clear()
    again = result(12, spool=tmp_path)
    assert counted == [7]
    assert path.read_bytes() == good
    same_rollouts(whole.rollouts, again.rollouts)
    assert any("block-00000007-1.safetensors" in text for text in again.warnings)


# ---- what goes wrong -----------------------------------------------------------------------------------------------


def test_ctrl_c_keeps_what_was_finished() -> None:
    def stop(told: Any) -> None:
        if told.episodes >= 9:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted) as stopped:
        result(10_000, progress=stop, sampler="os", env="tests.evaluation.worker_environments:slow")
    kept = stopped.value.rollouts
    assert kept.episodes >= 9
    assert kept.starts >= kept.episodes
    assert stopped.value.result.interrupted


def test_a_fault_keeps_what_was_finished() -> None:
    with pytest.raises(EnvironmentFault, match="the simulator is gone") as told:
        result(20, env=worker_environments.failing)
    assert told.value.rollouts.episodes in (4, 5)  # of the round in which one fails, the other may have finished


@pytest.mark.parametrize("sampler", ["roa:rho=1", "props", "ros-head:alpha=1", "off"])
def test_samplers_whose_learning_cannot_be_added_up_are_refused(sampler: str) -> None:
    with pytest.raises(SpecError, match=r"cannot run on several workers: use auto, ros:alpha=… or os|domains only"):
        result(4, sampler=sampler)


def test_what_cannot_travel_is_refused_with_what_to_give_instead() -> None:
    with pytest.raises(SpecError, match="made already cannot be sent to workers: give an id"):
        result(4, env=gym.make(ID))
    with pytest.raises(SpecError, match=r"workers are for environments.*evenroll/CartPole-v0"):
        result(4, env="cartpole")
    with pytest.raises(SpecError, match="count episodes, not steps"):
        evenroll.evaluate(ID, POLICY, steps=100, workers=2)
    with pytest.raises(SpecError, match="put the function at the top of a module"):
        result(4, policy=lambda x: [0.5, 0.5])


def test_threads_are_gone_when_it_is_closed() -> None:
    before = threading.active_count()
    result(20, workers=4)
    for _ in range(100):
        if threading.active_count() <= before:
            return
        time.sleep(0.05)
    raise AssertionError("threads are left")


def test_a_pool_of_ones_own_is_used() -> None:
    from concurrent.futures import ThreadPoolExecutor

    made: list[int] = []

    def make() -> Any:
        made.append(1)
        return ThreadPoolExecutor(2)

    result(20, executor=Pool(make, lambda executor: 2))
    assert made == [1]  # one executor for all rounds
