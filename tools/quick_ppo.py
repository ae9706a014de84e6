"""PPO's training with its gradient written out, for learning curves over many seeds.

An update of Stable-Baselines3's PPO makes 320 steps of a network with 9,000 weights, and spends most of its time on
the administration of its tensors. `QuickPPO.train` computes the same steps with NumPy: the same minibatches from the same
permutations, the clipped objective, the squared error of the values, the clipped norm, Adam. The numbers differ from
Stable-Baselines3's by the rounding of single precision, which `tests/test_tools.py` holds against the original. Collecting,
environments, callbacks and the balance are not touched.

It takes what the defaults of `MlpPolicy` make, and refuses everything else: vectors as observations, an actor and a critic
of their own with tanh, discrete or Gaussian actions, no bonus for entropy, no clipping of values, no limit for the
divergence.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3 import PPO

from evenroll.sb3.learning import _Balanced


class Layers:
    """A network with tanh between its layers. Weights and gradients are views of one vector each."""

    def __init__(self, layers: list[tuple[np.ndarray, np.ndarray]], slopes: list[tuple[np.ndarray, np.ndarray]]) -> None:
        self.layers, self.slopes = layers, slopes
        self.inputs: list[np.ndarray] = []

    def forward(self, x: np.ndarray) -> np.ndarray:
        self.inputs = [x]
        for weight, bias in self.layers[:-1]:
            x = np.tanh(x @ weight.T + bias)
            self.inputs.append(x)
        weight, bias = self.layers[-1]
        return np.asarray(x @ weight.T + bias)

    def backward(self, d: np.ndarray) -> None:
        """Write the gradient with respect to all weights, given that with respect to the outputs."""
        for i in reversed(range(len(self.layers))):
            np.matmul(d.T, self.inputs[i], out=self.slopes[i][0])
            d.sum(axis=0, out=self.slopes[i][1])
            if i:
                d = (d @ self.layers[i][0]) * (1.0 - np.square(self.inputs[i]))


class Weights:
    """The weights of a policy of Stable-Baselines3 as one vector that it shares, their gradient, and Adam's state."""

    def __init__(self, policy: Any) -> None:
        named = dict(policy.named_parameters())
        count = sum(p.numel() for p in named.values())
        self.values, self.slope, self.first, self.second = (np.zeros(count, dtype=np.float32) for _ in range(4))
        self.steps = 0
        views, slopes, at = {}, {}, 0
        for name, p in named.items():
            view = self.values[at : at + p.numel()].reshape(p.shape)
            view[...] = p.detach().numpy()
            p.data = torch.from_numpy(view)
            views[name], slopes[name] = view, self.slope[at : at + p.numel()].reshape(p.shape)
            at += p.numel()

        def network(extractor: str, last: str) -> Layers:
            stems = sorted(
                name[:-7] for name in named if name.startswith(f"mlp_extractor.{extractor}.") and "weight" in name
            )
            every = [*stems, last]
            return Layers(*([(x[f"{s}.weight"], x[f"{s}.bias"]) for s in every] for x in (views, slopes)))

        self.actor, self.critic = network("policy_net", "action_net"), network("value_net", "value_net")
        self.log_std, self.log_std_slope = views.get("log_std"), slopes.get("log_std")
        owned = 2 * (len(self.actor.layers) + len(self.critic.layers)) + (self.log_std is not None)
        if owned != len(named):
            raise ValueError("this policy has weights that are not those of MlpPolicy")

    def adam(self, rate: float, most: float, betas: tuple[float, float], epsilon: float) -> None:
        """One step of Adam, against a gradient whose norm is cut to `most`."""
        g = self.slope
        norm = float(np.sqrt(np.dot(g, g)))
        g *= np.float32(min(most / (norm + 1e-6), 1.0))
        self.steps += 1
        a, b = betas
        self.first += np.float32(1.0 - a) * (g - self.first)
        self.second *= np.float32(b)
        self.second += np.float32(1.0 - b) * g * g
        scale = np.sqrt(self.second) / np.float32(math.sqrt(1.0 - b**self.steps)) + np.float32(epsilon)
        self.values -= np.float32(rate / (1.0 - a**self.steps)) * self.first / scale


class QuickPPO(PPO):
    """Stable-Baselines3's PPO, whose training is computed by NumPy."""

    _weights: Weights | None = None

    def train(self) -> None:
        plain = self.ent_coef == 0.0 and self.clip_range_vf is None and self.target_kl is None and self.normalize_advantage
        if not plain or self.use_sde or not isinstance(self.action_space, gym.spaces.Discrete | gym.spaces.Box):
            raise ValueError("QuickPPO takes PPO's default settings only")
        w = self._weights = self._weights or Weights(self.policy)
        group = self.policy.optimizer.param_groups[0]
        rate, clip = float(self.lr_schedule(self._current_progress_remaining)), float(self.clip_range(1.0))
        buffer = self.rollout_buffer
        obs, actions, before, advantages, returns = (
            buffer.swap_and_flatten(getattr(buffer, name)).astype(np.float32)
            for name in ("observations", "actions", "log_probs", "advantages", "returns")
        )
        obs, before, advantages, returns = obs.reshape(len(obs), -1), before.ravel(), advantages.ravel(), returns.ravel()
        for _ in range(self.n_epochs):
            order = np.random.permutation(len(obs))  # as RolloutBuffer.get draws it
            for at in range(0, len(obs), self.batch_size):
                some = order[at : at + self.batch_size]
                n = np.float32(len(some))
                x, taken, a = obs[some], actions[some], advantages[some]
                a = (a - a.mean()) / (a.std(ddof=1) + np.float32(1e-8))
                log_probs, slopes = self._log_probs(w, w.actor.forward(x), taken)
                ratio = np.exp(log_probs - before[some])
                counts = a * ratio <= a * np.clip(ratio, 1.0 - clip, 1.0 + clip)
                slopes(np.where(counts, -a * ratio / n, np.float32(0.0)))
                values = w.critic.forward(x)[:, 0]
                w.critic.backward((np.float32(2.0 * self.vf_coef) / n * (values - returns[some]))[:, None])
                w.adam(rate, self.max_grad_norm, group["betas"], group["eps"])
            self._n_updates += 1

    def _log_probs(self, w: Weights, outputs: np.ndarray, taken: np.ndarray) -> tuple[np.ndarray, Any]:
        """(log π of the actions, a function that takes the gradient with respect to it back to the weights).

        That function may be given a further gradient, with respect to the outputs and to log σ.
        """
        if w.log_std is None:
            shifted = outputs - outputs.max(axis=1, keepdims=True)
            logs = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
            chosen = taken[:, 0].astype(int)
            rows = np.arange(len(chosen))

            def back(d: np.ndarray, more: Any = (0.0, 0.0)) -> None:
                slope = -np.exp(logs) * d[:, None]
                slope[rows, chosen] += d
                w.actor.backward(slope + more[0])

            return logs[rows, chosen], back
        z = (taken - outputs) / np.exp(w.log_std)

        def back_real(d: np.ndarray, more: Any = (0.0, 0.0)) -> None:
            w.actor.backward(z / np.exp(w.log_std) * d[:, None] + more[0])
            w.log_std_slope[...] = ((np.square(z) - 1.0) * d[:, None]).sum(axis=0) + more[1]

        return (-0.5 * np.square(z) - w.log_std - np.float32(0.5 * math.log(2.0 * math.pi))).sum(axis=1), back_real


class QuickBalancedPPO(_Balanced, QuickPPO):
    """`evenroll.sb3.BalancedPPO` with the training of `QuickPPO`."""


@dataclass(frozen=True)
class PropsSettings:
    """How PROPS (Corrado and Hanna, arXiv 2311.08290) moves its behaviour policy; the paper tunes these for every task."""

    every: int = 256  # steps between two fits
    epochs: int = 16
    minibatches: int = 16
    rate: float = 1e-4
    clip: float = 0.3
    penalty: float = 0.1
    farthest: float = 0.05  # the divergence at which a fit stops


class QuickPROPS(_Balanced, QuickPPO):
    """PPO with a buffer of two rollouts, collected by PROPS instead of `auto`: for comparison, in learning curves only.

    Every 256 steps the behaviour policy starts again from π_θ and is fitted to all steps of the buffer, so that their
    actions become less likely, within limits: E[max(r, clip(r))] + λ KL(π_θ ‖ π_φ) falls, r = π_φ/π_θ. Actions are drawn
    from it; values and log-probabilities are those of π_θ.
    """

    settings = PropsSettings()

    def collect_rollouts(self, env: Any, callback: Any, rollout_buffer: Any, n_rollout_steps: int) -> bool:
        w = self._weights = self._weights or Weights(self.policy)
        behavior, rng = Weights(copy.deepcopy(self.policy)), np.random.default_rng((self.seed or 0, self.num_timesteps))
        parts = [(part["observations"][:, 0], part["actions"][:, 0]) for part in self._earlier.kept]
        seen, done = [np.concatenate(x).astype(np.float32) for x in zip(*parts, strict=True)] if parts else [], 0

        def forward(obs: torch.Tensor, deterministic: bool = False) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
            nonlocal done
            if done % self.settings.every == 0 and (seen or done):
                new = [x[:done, 0].astype(np.float32) for x in (rollout_buffer.observations, rollout_buffer.actions)]
                both = [np.concatenate([a, b]) for a, b in zip(seen, new, strict=True)] if seen else new
                self._fit(w, behavior, *both, rng)
            done += 1
            x = obs.numpy().astype(np.float32)
            outputs = behavior.actor.forward(x)
            if w.log_std is None:
                odds = np.exp(outputs - outputs.max(axis=1, keepdims=True))
                cumulative = np.cumsum(odds, axis=1) / odds.sum(axis=1, keepdims=True)
                action = (cumulative < rng.random((len(x), 1))).sum(axis=1)
            else:
                action = (outputs + np.exp(behavior.log_std) * rng.standard_normal(outputs.shape)).astype(np.float32)
            log_prob, _ = self._log_probs(w, w.actor.forward(x), action.reshape(len(x), -1))
            value = w.critic.forward(x)
            return torch.from_numpy(action), torch.from_numpy(value), torch.from_numpy(log_prob.astype(np.float32))

        self.policy.forward = forward
        try:
            return bool(super().collect_rollouts(env, callback, rollout_buffer, n_rollout_steps))
        finally:
            del self.policy.forward

    def _fit(self, w: Weights, behavior: Weights, obs: np.ndarray, actions: np.ndarray, rng: np.random.Generator) -> None:
        s = self.settings
        behavior.values[...], behavior.steps = w.values, 0
        behavior.first[...] = behavior.second[...] = 0.0
        outputs, scale = w.actor.forward(obs), None if w.log_std is None else np.exp(w.log_std)
        before, _ = self._log_probs(w, outputs, actions)
        size = max(len(obs) // s.minibatches, 1)
        for _ in range(s.epochs):
            order = rng.permutation(len(obs))
            for at in range(0, len(obs), size):
                some = order[at : at + size]
                n = np.float32(len(some))
                here = behavior.actor.forward(obs[some])
                log_probs, back = self._log_probs(behavior, here, actions[some])
                log_ratio = log_probs - before[some]
                ratio = np.exp(log_ratio)
                if float(np.mean(ratio - 1.0 - log_ratio)) > s.farthest:
                    return
                slope = np.where(ratio >= 1.0 - s.clip, ratio / n, np.float32(0.0)).astype(np.float32)
                back(slope, self._pull(behavior, here, outputs[some], scale, np.float32(s.penalty) / n))
                behavior.adam(s.rate, self.max_grad_norm, (0.9, 0.999), 1e-5)

    @staticmethod
    def _pull(behavior: Weights, here: np.ndarray, there: np.ndarray, scale: Any, weight: np.float32) -> Any:
        """The gradient of weight · KL(π_θ ‖ π_φ) with respect to the outputs at φ, and to log σ_φ."""
        if scale is None:
            p, q = (np.exp(x - x.max(axis=1, keepdims=True)) for x in (there, here))
            return weight * (q / q.sum(axis=1, keepdims=True) - p / p.sum(axis=1, keepdims=True)), None
        variance, gap = np.exp(2.0 * behavior.log_std), here - there
        return weight * gap / variance, (weight * (1.0 - (scale**2 + gap**2) / variance)).sum(axis=0)
