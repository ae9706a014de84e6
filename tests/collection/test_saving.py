"""A recorder that is saved at any step and goes on."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch

import evenroll
from evenroll.collection.rollout_files import load_rollouts, save_rollouts
from evenroll.evaluation.collector import Collector
from tests.helpers import through_gymnasium
from tests.torch_helpers import KINDS, Head


def test_the_names_in_files_do_not_follow_our_modules(tmp_path) -> None:
    """Files of earlier versions are read: what they call their contents is part of the format."""
    from safetensors import safe_open
    from safetensors.numpy import save_file

    arrays = {"returns": np.array([3.0]), "ends": np.array([2]), "terminated": np.array([True])}
    arrays |= {"rewards": np.array([1.0, 2.0, 5.0]), "actions": np.ones((3, 1)), "observations": np.zeros((3, 1))}
    save_file(arrays, tmp_path / "old.safetensors", {"evenroll.rollouts": '{"gamma": 1.0, "steps": 3, "horizon": null}'})
    assert load_rollouts(tmp_path / "old.safetensors").returns == [3.0]
    collector, data, _ = through_gymnasium("gridworld", steps=20)
    save_rollouts(data, tmp_path / "new.safetensors")
    collector.save(tmp_path / "collector.safetensors")
    for name, key in (("new", "evenroll.rollouts"), ("collector", "evenroll.collector")):
        with safe_open(tmp_path / f"{name}.safetensors", "numpy") as file:
            assert key in file.metadata()


@pytest.mark.parametrize("kind", ["categorical", "own scale"])
@pytest.mark.parametrize("between", [False, True])
@pytest.mark.parametrize("sampler", ["auto", "ros:alpha=5"])
def test_saved_at_any_step_it_goes_on_as_if_nothing_had_happened(tmp_path, kind: str, between: bool, sampler: str) -> None:
    space, outputs, make, _ = KINDS[kind]
    torch.manual_seed(0)
    module = Head(3, outputs, make)
    rng = np.random.default_rng(0)
    observations, rewards = rng.standard_normal((70, 3)).astype(np.float32), rng.standard_normal(70)
    box = gym.spaces.Box(-np.inf, np.inf, (3,), np.float32)

    def new() -> Collector:
        return Collector(
            module, sampler, gamma=0.9, observation_space=box, action_space=space, compile=kind == "categorical"
        )

    def go(collector: Collector, first: int, last: int, acted: bool = False) -> None:
        for t in range(first, last):
            if not acted:
                collector.act(observations[t])
            acted = False
            collector.observe(rewards[t], t % 7 == 6, False, observations[t])

    straight = new()
    go(straight, 0, 70)
    for at in (0, 1, 6, 7, 33):
        first = new()
        go(first, 0, at)
        if between:
            first.act(observations[at])
        first.save(tmp_path / "half.safetensors")
        second = new().resume(tmp_path / "half.safetensors")
        second.go_on()
        go(second, at, 70, acted=between)
        a, b = straight.rollouts(), second.rollouts()
        for column in ("returns", "ends", "actions", "log_e", "log_b", "observations", "rewards", "terminated"):
            np.testing.assert_array_equal(getattr(a, column), getattr(b, column))
        if straight.ros is None:  # through torch nobody watches; elsewhere the guard has not forgotten either
            assert second.stepper.divergence == straight.stepper.divergence
            assert second.stepper.divergence.largest > 0.0
    with pytest.raises(evenroll.EvenrollError, match="gamma"):
        Collector(module, sampler, gamma=0.8, observation_space=box, action_space=space,
                  compile=kind == "categorical").resume(tmp_path / "half.safetensors")  # fmt: skip
