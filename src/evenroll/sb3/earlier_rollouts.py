"""Earlier rollouts that are learnt from once more, together with the new one.

Stable-Baselines3 goes on in its environments where the last rollout stopped. So rollouts one after the other are one longer
rollout: they are joined in time, their values and log-probabilities are those of the present policy, and the advantages are
computed anew over the whole. PPO then takes all of it for data of the present policy, which is what balancing has seen to.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch

CHUNK = 1024  # observations that go through the network at once
COLLECTED = ("observations", "actions", "rewards", "episode_starts", "values", "log_probs")


class EarlierRollouts:
    """The last rollouts, the oldest first. Each is a dictionary of arrays [steps, environments, …]."""

    def __init__(self) -> None:
        self.kept: list[dict[str, Any]] = []

    def __bool__(self) -> bool:
        return bool(self.kept)

    def forget(self) -> None:
        self.kept.clear()

    def keep(self, buffer: Any, most: int) -> None:
        """Keep a buffer's rollout, and no more than `most` in all. Its arrays are not copied: `reset` makes new ones."""
        self.kept = [*self.kept, {name: getattr(buffer, name) for name in COLLECTED}][-most:]

    def steps(self, model: Any) -> tuple[list[Any], np.ndarray, np.ndarray]:
        """(observations, actions, starts) of all kept steps, as `BalancedDraws.restart_from` takes them."""
        observations = _joined([part["observations"] for part in self.kept])
        rows = [_tensors(model, part) for part in _chunks(_flat(observations))]
        return (
            rows,
            _joined([part["actions"] for part in self.kept]),
            _joined([part["episode_starts"] for part in self.kept]),
        )

    def with_new(self, model: Any) -> Any:
        """A buffer with the earlier rollouts and the new one, `model.rollout_buffer`, after them."""
        new = model.rollout_buffer
        parts = [*self.kept, {name: getattr(new, name) for name in COLLECTED}]
        before = sum(len(part["rewards"]) for part in self.kept)
        whole = model.rollout_buffer_class(
            before + new.buffer_size, model.observation_space, model.action_space, device=model.device, gamma=model.gamma,
            gae_lambda=model.gae_lambda, n_envs=model.n_envs, **model.rollout_buffer_kwargs,
        )  # fmt: skip
        for name in COLLECTED:
            setattr(whole, name, _joined([part[name] for part in parts]))
        if before:
            self._score_again(model, whole, before)
        with torch.no_grad():
            last = model.policy.predict_values(_tensors(model, model._last_obs))
        whole.compute_returns_and_advantage(last, np.asarray(model._last_episode_starts))
        whole.pos, whole.full = whole.buffer_size, True
        return whole

    def _score_again(self, model: Any, whole: Any, before: int) -> None:
        """Give the first steps the values and log-probabilities of the present policy."""
        model.policy.set_training_mode(False)
        old = _joined([part["observations"] for part in self.kept])
        actions = whole.actions[:before].reshape(-1, whole.actions.shape[-1]).astype(np.float32)
        discrete = isinstance(model.action_space, gym.spaces.Discrete)
        values, log_probs, at = [], [], 0
        with torch.no_grad():
            for rows in _chunks(_flat(old)):
                n = len(next(iter(rows.values())) if isinstance(rows, dict) else rows)
                taken = torch.as_tensor(actions[at : at + n], device=model.device)
                value, log_prob, _ = model.policy.evaluate_actions(
                    _tensors(model, rows), taken.long().flatten() if discrete else taken
                )
                values.append(value.flatten().cpu().numpy())
                log_probs.append(log_prob.flatten().cpu().numpy())
                at += n
        whole.values[:before] = np.concatenate(values).reshape(before, -1)
        whole.log_probs[:before] = np.concatenate(log_probs).reshape(before, -1)


def _joined(parts: list[Any]) -> Any:
    """Arrays joined in time; of dictionaries each entry."""
    if isinstance(parts[0], dict):
        return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    return np.concatenate(parts)


def _flat(x: Any) -> Any:
    """[steps, environments, …] → [steps · environments, …], the environments of each time in turn."""
    if isinstance(x, dict):
        return {key: _flat(part) for key, part in x.items()}
    return x.reshape(-1, *x.shape[2:])


def _chunks(x: Any) -> list[Any]:
    n = len(next(iter(x.values())) if isinstance(x, dict) else x)
    if isinstance(x, dict):
        return [{key: part[i : i + CHUNK] for key, part in x.items()} for i in range(0, n, CHUNK)]
    return [x[i : i + CHUNK] for i in range(0, n, CHUNK)]


def _tensors(model: Any, x: Any) -> Any:
    if isinstance(x, dict):
        return {key: _tensors(model, part) for key, part in x.items()}
    return torch.as_tensor(np.asarray(x), device=model.device)
