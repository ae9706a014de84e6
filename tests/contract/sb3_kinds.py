"""Models of Stable-Baselines3 and sb3-contrib, as objects and as zips, beside what they themselves draw and say."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch

from tests.contract.kinds import VECTOR, Kind, Own, Track, becomes, squashed, summed


def of_distribution(model: Any) -> Own:
    """PPO, A2C, TRPO."""

    def judge(x: Any, rows: np.ndarray, state: Any, masks: Any) -> Any:
        distribution = model.policy.get_distribution(model.policy.obs_to_tensor(x)[0])
        given = torch.as_tensor(rows[:, 0] if isinstance(model.action_space, gym.spaces.Discrete) else rows)
        return summed(distribution.log_prob(given)), becomes(model.action_space, rows), None

    def draw(x: Any, state: Any, masks: Any) -> Any:
        return model.predict(x, deterministic=False)[0], None

    return Own(draw, judge)


def of_squash(model: Any) -> Own:
    """SAC, TQC, CrossQ."""
    low, high = (bound.astype(np.float64) for bound in (model.action_space.low, model.action_space.high))

    def judge(x: Any, rows: np.ndarray, state: Any, masks: Any) -> Any:
        model.policy.set_training_mode(False)
        mean, log_std, _ = model.actor.get_action_dist_params(model.policy.obs_to_tensor(x)[0])
        return squashed(mean, log_std, rows, (low + high) / 2, (high - low) / 2)

    return Own(of_distribution(model).draw, judge)


def of_exploration(model: Any) -> Own:
    """DQN, QR-DQN. `predict` explores with a whole batch at once or not at all, so each lane asks for itself."""
    rate, n = model.exploration_rate, int(model.action_space.n)

    def draw(x: Any, state: Any, masks: Any) -> Any:
        return np.array([model.predict(one, deterministic=False)[0] for one in x]), None

    def judge(x: Any, rows: np.ndarray, state: Any, masks: Any) -> Any:
        best = model.predict(x, deterministic=True)[0]
        p = rate / n + (1.0 - rate) * (rows[:, 0] == best)
        return np.log(p), becomes(model.action_space, rows), None

    return Own(draw, judge)


def of_masks(model: Any) -> Own:
    def draw(x: Any, state: Any, masks: Any) -> Any:
        return model.predict(x, action_masks=masks, deterministic=False)[0], None

    def judge(x: Any, rows: np.ndarray, state: Any, masks: Any) -> Any:
        distribution = model.policy.get_distribution(model.policy.obs_to_tensor(x)[0], masks)
        return summed(distribution.log_prob(torch.as_tensor(rows[:, 0]))), becomes(model.action_space, rows), None

    return Own(draw, judge)


def of_memory(model: Any) -> Own:
    """RecurrentPPO. An episode begins where there is no state yet."""

    def draw(x: Any, state: Any, masks: Any) -> Any:
        begins = np.full(len(x), state is None)
        return model.predict(x, state=state, episode_start=begins, deterministic=False)

    def judge(x: Any, rows: np.ndarray, state: Any, masks: Any) -> Any:
        layers, _, width = model.policy.lstm_hidden_state_shape
        state = (torch.zeros(layers, len(x), width),) * 2 if state is None else state
        distribution, state = model.policy.get_distribution(model.policy.obs_to_tensor(x)[0], state, torch.zeros(len(x)))
        return summed(distribution.log_prob(torch.as_tensor(rows[:, 0]))), becomes(model.action_space, rows), state

    return Own(draw, judge)


def of_state_dependent_noise(model: Any) -> Own:
    """gSDE, with new noise for every episode. Its actions have no distribution of their own, so nothing is balanced."""

    def draw(x: Any, state: Any, masks: Any) -> Any:
        if state is None:
            model.policy.reset_noise(len(x))
        return model.predict(x, deterministic=False)[0], True

    return Own(draw, None)


WAYS = {
    "SAC": of_squash, "TQC": of_squash, "CrossQ": of_squash, "DQN": of_exploration, "QRDQN": of_exploration,
    "MaskablePPO": of_masks, "RecurrentPPO": of_memory, "TD3": None, "DDPG": None, "ARS": None,
}  # fmt: skip


def sb3_kind(
    algorithm: Any, actions: gym.Space, observations: gym.Space = VECTOR, policy: str = "MlpPolicy", saved: bool = False,
    exploration_rate: float | None = None, **options: Any,
) -> Kind:  # fmt: skip
    name = algorithm.__name__
    masked, way = name == "MaskablePPO", WAYS.get(name, of_distribution)
    if options.get("use_sde"):
        way = of_state_dependent_noise

    def make(place: Path) -> Any:
        env = Track(Kind(make, actions, observations, masked), known=False)
        more = {"buffer_size": 10} if hasattr(algorithm, "replay_buffer_class") or way in (of_squash, of_exploration) else {}
        own_options = copy.deepcopy(options)  # a model changes what it is given
        model = algorithm(policy, env, device="cpu", seed=0, **more, **own_options)
        if exploration_rate is not None:
            model.exploration_rate = exploration_rate
        own = None if way is None else way(model)
        if not saved:
            return model, own
        model.save(place / "model.zip")
        return str(place / "model.zip"), own

    return Kind(make, actions, observations, masked)
