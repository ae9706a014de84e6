"""An episode that does not end: it is dropped with its part of the balance, or it goes on, and nothing is half recorded."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from evenroll.domains.catalogue import get_domain
from evenroll.errors import SpecError
from evenroll.evaluation.collector import Collector
from tests.helpers import same_data
from tests.torch_helpers import KINDS, Head

SAMPLERS = ("os", "auto", "auto:max_kl=0.01", "ros:alpha=5", "ros-head:alpha=5", "roa:rho=1", "props", "off:delta=0.2")
BOX = gym.spaces.Box(-np.inf, np.inf, (3,), np.float32)


def observation(rng: np.random.Generator, name: str) -> Any:
    return int(rng.integers(16)) if name == "gridworld" else rng.normal(size=4)


def play(collector: Collector, rng: np.random.Generator, name: str, lengths: tuple[int, ...], ends: bool = True) -> None:
    for length in lengths:
        for t in range(length):
            collector.act(observation(rng, name))
            collector.observe(rng.normal(), ends and t == length - 1)


def new(name: str, sampler: str) -> Collector:
    try:
        return Collector(get_domain(name).policy(), sampler, gamma=0.9)
    except SpecError as refusal:
        pytest.skip(str(refusal))


def luck_of(collector: Collector) -> np.ndarray:
    assert collector.stepper is not None
    return collector.stepper.balance.stream


@pytest.mark.parametrize("name", ["gridworld", "cartpole"])
@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("pending", [False, True])
def test_an_abandoned_episode_might_never_have_been(name: str, sampler: str, pending: bool) -> None:
    """What follows is the same, bit for bit, as in a run without it: actions, log π_b, divergence. (Given the same luck.)"""
    without, abandoned = new(name, sampler), new(name, sampler)
    for collector in (without, abandoned):
        play(collector, np.random.default_rng(0), name, (5, 9, 3))
    play(abandoned, np.random.default_rng(1), name, (4,), ends=False)
    if pending:
        abandoned.act(observation(np.random.default_rng(2), name))
    assert abandoned.open_episodes == 1
    assert abandoned.abandon() == 4
    assert (abandoned.open_episodes, abandoned.steps, abandoned.episodes) == (0, 17, 3)
    assert not np.array_equal(luck_of(abandoned), luck_of(without))  # it is not met with the same luck again
    luck_of(abandoned)[...] = luck_of(without)
    assert abandoned.divergence == without.divergence
    for collector in (without, abandoned):
        play(collector, np.random.default_rng(3), name, (6, 40, 2))
    same_data(abandoned.rollouts(), without.rollouts())
    np.testing.assert_array_equal(abandoned.rollouts().log_b, without.rollouts().log_b)
    assert abandoned.divergence == without.divergence


@pytest.mark.parametrize("compile", [True, False])
@pytest.mark.parametrize("sampler", ["auto", "ros:alpha=5"])
def test_a_network_that_runs_elsewhere_forgets_it_too(sampler: str, compile: bool) -> None:
    """Up to single precision, in which a network's outputs are recorded."""
    space, outputs, make, _ = KINDS["categorical"]
    torch.manual_seed(0)
    module = Head(3, outputs, make)
    probabilities = []
    for abandons in (False, True):
        collector = Collector(module, sampler, observation_space=BOX, action_space=space, compile=compile)
        rng = np.random.default_rng(0)
        seen = rng.standard_normal((80, 3)).astype(np.float32)
        for t in range(60):
            collector.act(seen[t])
            collector.observe(0.0, t % 6 == 5)
        if abandons:
            for t in range(7):
                collector.act(seen[t + 60] * 3)
                collector.observe(0.0, False)
            collector.abandon()
        luck_of(collector)[...] = np.arange(len(luck_of(collector))) + 12345
        for t in range(60, 80):
            collector.act(seen[t])
            collector.observe(0.0, t % 6 == 5)
        probabilities.append(collector.rollouts().log_b)
        collector.close()
    np.testing.assert_allclose(probabilities[0], probabilities[1], rtol=1e-4, atol=1e-5)


def test_of_several_lanes_one_is_dropped_and_the_others_go_on() -> None:
    """The balance counts the steps that are kept: what is chosen next is what a sampler would choose that met only them."""
    policy = get_domain("gridworld").policy()
    collector = Collector(policy, "ros:alpha=50", gamma=0.9, lanes=3)
    rng = np.random.default_rng(0)
    for t in range(10):
        collector.act(rng.integers(16, size=3))
        ends = np.array([t == 5, False, t == 7])
        collector.observe(rng.normal(size=3), ends, np.zeros(3, bool))
    assert collector.open_episodes == 3
    rows = collector.columns["episode"][:, 0]
    others = {int(e) for e in rows} - {collector._episode[1]}
    kept = np.isin(rows, list(others))
    expected = sum(
        policy.score(int(s), int(a))
        for s, a in zip(collector.columns["observations"][kept, 0], collector.columns["actions"][kept, 0], strict=True)
    )
    collector.act(rng.integers(16, size=3))  # between act and observe
    assert collector.abandon(1) == 10
    assert collector.open_episodes == 2
    collector.observe(rng.normal(size=3), np.ones(3, bool), np.zeros(3, bool))
    assert [collector.episodes, collector.open_episodes, collector.steps] == [4, 0, 22]
    with pytest.raises(SpecError, match="lane 3"):
        collector.abandon(3)
    assert collector.stepper is not None
    again = Collector(policy, "ros:alpha=50", gamma=0.9)
    assert again.stepper is not None
    found = collector.stepper.balance.vectors - sum(
        policy.score(int(s), int(a))
        for s, a in zip(collector.columns["observations"][-2:, 0], collector.columns["actions"][-2:, 0], strict=True)
    )
    np.testing.assert_allclose(found.reshape(np.shape(expected)), expected, atol=1e-9)


def strike(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, after: bool) -> None:
    """The next call of this method is interrupted, before or after it does its work."""
    usual: Callable[..., Any] = getattr(owner, name)

    def struck(*arguments: Any) -> Any:
        monkeypatch.setattr(owner, name, usual)
        if after:
            usual(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(owner, name, struck)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("where", ["once", "more", "to_env"])
def test_an_interrupt_within_act(where: str, after: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever was done of it: the finished data is whole, the next act says what to do, and go_on continues as if nothing
    had been."""
    without, struck = new("cartpole", "auto"), new("cartpole", "auto")
    for collector in (without, struck):
        play(collector, np.random.default_rng(0), "cartpole", (5, 9))
        play(collector, np.random.default_rng(1), "cartpole", (4,), ends=False)
    owner = {"once": struck.stepper, "more": struck.columns, "to_env": type(struck.model.actions)}[where]
    strike(monkeypatch, owner, where, after)
    with pytest.raises(KeyboardInterrupt):
        struck.act(np.zeros(4))
    same_data(struck.rollouts(), without.rollouts())
    if where == "to_env":  # the step was recorded, and what came of it is not known
        with pytest.raises(SpecError, match=r"act was called twice.*observe.*abandon\(\)"):
            struck.act(np.zeros(4))
        assert struck.abandon() == 4
        return
    for refused in (lambda: struck.act(np.zeros(4)), lambda: struck.observe(1.0, False), lambda: struck.save("x")):
        with pytest.raises(SpecError, match=r"act was interrupted: call go_on\(\)"):
            refused()
    struck.go_on()
    luck_of(struck)[...] = luck_of(without)
    for collector in (without, struck):
        play(collector, np.random.default_rng(3), "cartpole", (6, 2))
    same_data(struck.rollouts(), without.rollouts())
    np.testing.assert_array_equal(struck.rollouts().log_b, without.rollouts().log_b)


@pytest.mark.parametrize("after", [False, True])
def test_an_interrupt_within_observe(after: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    collector = new("cartpole", "auto")
    play(collector, np.random.default_rng(0), "cartpole", (5, 9))
    play(collector, np.random.default_rng(1), "cartpole", (4,), ends=False)
    collector.act(np.zeros(4))
    strike(monkeypatch, collector.stepper, "end", after)
    with pytest.raises(KeyboardInterrupt):
        collector.observe(1.0, True)
    for refused in (lambda: collector.act(np.zeros(4)), collector.go_on):
        with pytest.raises(SpecError, match=r"observe was interrupted: call abandon\(\)"):
            refused()
    collector.abandon()
    play(collector, np.random.default_rng(2), "cartpole", (3,))
    assert collector.rollouts().lengths.tolist() == [5, 9, 5, 3]  # the step itself had been recorded
    assert collector.stepper is not None
    assert collector.stepper.balance.clock.episodes == 4


def test_a_real_interrupt_in_the_midst_of_the_loop() -> None:
    """SIGALRM raises it wherever the program happens to be, some hundred times; the data stays whole."""
    collector, rng = new("cartpole", "auto"), np.random.default_rng(0)

    def ring(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, ring)
    interrupts = 0
    try:
        while interrupts < 150:
            try:
                signal.setitimer(signal.ITIMER_REAL, float(rng.uniform(1e-4, 2e-3)))
                while True:
                    play(collector, rng, "cartpole", (4,))
            except KeyboardInterrupt:
                interrupts += 1
            collector.abandon()
            assert collector.open_episodes == 0
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    data = collector.rollouts()
    assert set(data.lengths.tolist()) == {4}
    assert collector.steps == data.steps == 4 * collector.episodes
    assert collector.stepper is not None
    assert collector.stepper.balance.clock.steps == data.steps


def test_after_resume_an_open_episode_must_be_spoken_for(tmp_path: Path) -> None:
    def saved(*, ends: bool, pending: bool = False) -> Collector:
        collector = new("cartpole", "auto")
        play(collector, np.random.default_rng(0), "cartpole", (5,))
        play(collector, np.random.default_rng(1), "cartpole", (3,), ends)
        if pending:
            collector.act(np.zeros(4))
        collector.save(tmp_path / "half.safetensors")
        return new("cartpole", "auto").resume(tmp_path / "half.safetensors")

    whole = saved(ends=True)
    assert whole.open_episodes == 0
    whole.act(np.zeros(4))
    for pending in (False, True):
        robot = saved(ends=False, pending=pending)
        assert robot.open_episodes == 1
        for refused in (lambda robot=robot: robot.act(np.zeros(4)), lambda robot=robot: robot.observe(1.0, False)):
            with pytest.raises(
                SpecError, match=r"half.safetensors was saved within an episode, after 3 steps.*go_on\(\).*abandon\(\)"
            ):
                refused()
        robot.save(tmp_path / "again.safetensors")
        assert robot.abandon() == 3
        robot.act(np.zeros(4))
        robot.observe(1.0, True)
        assert robot.rollouts().lengths.tolist() == [5, 1]
        robot = saved(ends=False, pending=pending)
        robot.go_on()
        if not pending:
            robot.act(np.zeros(4))
        robot.observe(1.0, True)
        assert robot.rollouts().lengths.tolist() == [5, 4]


def test_a_start_in_the_midst_of_an_episode_is_refused() -> None:
    collector = new("cartpole", "auto")
    collector.act(np.zeros(4), start=True)
    collector.observe(1.0, False)
    with pytest.raises(SpecError, match=r"the last episode has not ended.*abandon\(\)"):
        collector.act(np.zeros(4), start=True)
    collector.abandon()
    collector.act(np.zeros(4), start=True)
    assert new("cartpole", "auto").abandon() == 0  # nothing to drop
