"""Balanced draws for a policy of Stable-Baselines3 that is being trained: only how an action is drawn is replaced.

Stable-Baselines3 asks its policy once a step for (action, value, log π). The policy's own forward pass computes all of them.
Of that pass we take the features (the input of `action_net`) and the outputs, which are those of the present weights, and we
give back an action. So no weights are copied, and the value and log π_θ of the action are the policy's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.distributions import (
    BernoulliDistribution,
    CategoricalDistribution,
    DiagGaussianDistribution,
    MultiCategoricalDistribution,
)

from evenroll.adapters.torch_module import projection_of
from evenroll.collection.lanes import SOUND, Lanes
from evenroll.errors import PolicyFault, SpecError
from evenroll.policies.external import External
from evenroll.samplers import Sampler

GAMMA = 1.0  # a minibatch of PPO counts every step alike, so the balance does (docs/learn.md has the measurement)
CUT = 20  # steps after which the balance takes a trajectory for ended: an advantage hardly looks further (docs/learn.md)
LEARNING = 6  # the branch of the seed tree for actions to learn from
NO_BALANCE = (
    "the actions of this policy come from {0}, which cannot be balanced{1}: the actions of Discrete, MultiDiscrete, "
    'MultiBinary and Box spaces without use_sde can; with sampler="os" everything works as in Stable-Baselines3'
)


class BalancedDraws:
    """The balance of a model's rollouts, which all of its environments share.

    policy   the model's policy, an ActorCriticPolicy of Stable-Baselines3
    sampler  how actions are chosen
    seed     the place in the seed tree
    lanes    how many environments run side by side

    For the balance a trajectory ends with its episode, or after CUT steps. `auto` leans less the longer trajectories are,
    and lets the rest of a trajectory's luck wait for its end; both are right for returns of whole episodes, but a policy
    gradient is made of advantages, which look ahead about 1/(1 − γλ) steps.
    """

    def __init__(self, policy: Any, sampler: Sampler, seed: tuple[int, ...], lanes: int) -> None:
        self.policy, self.kind = policy, policy.action_dist
        layer = policy.action_net
        if not isinstance(layer, torch.nn.Linear):
            raise SpecError(f"the policy's action_net is a {type(layer).__name__}, no linear layer: it cannot be balanced")
        self.projection = projection_of(layer.in_features)
        width = layer.in_features if self.projection is None else self.projection.shape[1]
        self.engine, self._write, self._read = reading(policy, width)
        self.lanes = Lanes(self.engine, sampler, (*seed, LEARNING), gamma=GAMMA, lanes=lanes)
        self._begin = {name: array.copy() for name, array in self.lanes.state().items() if name != "rng"}
        self._latent: torch.Tensor | None = None
        self._age = np.zeros(lanes, dtype=np.int64)  # steps of each lane's trajectory, of which one has CUT at most
        self._drawn = False

    def restart(self) -> None:
        """Forget all data. The random numbers go on."""
        for name, array in self._begin.items():
            self.lanes.state()[name][...] = array
        self._age[...] = 0

    def restart_from(self, observations: list[Any], actions: np.ndarray, starts: np.ndarray, now: np.ndarray) -> None:
        """Forget all data but these steps, which count as the present policy sees them.

        observations  tensors as the policy takes them, with the lanes of each time in turn, in parts of any length
        actions       [T, lanes, dim] as Stable-Baselines3 stores them
        starts        [T, lanes] whether the step is the first of an episode
        now           [lanes] whether the coming step is the first of an episode
        """
        encoded = np.concatenate([self.encode(part) for part in observations])
        first, time = starts.astype(bool), np.arange(len(starts))[:, None]
        first[0] = True
        age = time - np.maximum.accumulate(np.where(first, time, 0), axis=0)
        first |= age % CUT == 0
        last = np.concatenate([first[1:], now[None]])
        number = np.cumsum(first, axis=0) - 1  # of the trajectory within its lane
        before = np.concatenate([[0], np.cumsum(first.sum(axis=0))[:-1]])  # trajectories of the lanes before
        owner = (number + before).astype(np.int64)
        of_lane = np.where(now, -1, owner[-1]).tolist()
        rows = actions.reshape(len(encoded), -1).astype(np.float64)
        unknown = np.full(len(encoded), np.nan)  # what π_b was is not asked of data that an older policy has drawn
        self.lanes.replay(
            owner.ravel(), last.astype(np.int64).ravel(), encoded, rows, unknown, unknown, [int(x) for x in of_lane]
        )
        self._age[...] = np.where(now, 0, age[-1] % CUT + 1)

    @contextmanager
    def at_work(self, starts: Callable[[], np.ndarray]) -> Iterator[None]:
        """While this lasts, `policy(observations)` gives balanced actions; `predict` and all else stay as they are.

        starts  tells in which lanes an episode begins with the coming step
        """
        policy, original = self.policy, self.policy.forward
        hook = policy.action_net.register_forward_pre_hook(self._remember)

        def forward(obs: Any, deterministic: bool = False) -> Any:
            for lane in np.flatnonzero((self._age > 0) & (starts() | (self._age >= CUT))):
                self.lanes.end(int(lane))
                self._age[lane] = 0
            self._drawn = False
            self.kind.sample = self._draw
            try:
                result = original(obs, deterministic)
            finally:
                del self.kind.sample
            if not (self._drawn or deterministic):
                raise SpecError(f"{type(policy).__name__} draws its actions by itself, so nothing can be balanced")
            return result

        policy.forward = forward
        try:
            yield
        finally:
            del policy.forward
            hook.remove()
            self._latent = None

    def _remember(self, module: Any, inputs: tuple[torch.Tensor, ...]) -> None:
        self._latent = inputs[0]

    def _draw(self) -> torch.Tensor:
        """What stands in for the distribution's own `sample()`, right after the policy has computed the distribution."""
        lanes = self.lanes
        if self._latent is None or len(self._latent) != len(lanes.everyone):
            raise SpecError(f"the policy was asked about other than the {len(lanes.everyone)} environments of the rollout")
        self._encode_into(lanes.observations)
        if lanes.once() != SOUND:
            raise PolicyFault("the policy gives features, logits, means or scales that are not finite")
        self._age += 1
        self._drawn = True
        return self._read(lanes.actions).to(self._latent.device)

    def encode(self, observations: Any) -> np.ndarray:
        """The features and outputs [n, features + outputs] of the present policy at observations, as tensors."""
        hook = self.policy.action_net.register_forward_pre_hook(self._remember)
        try:
            with torch.no_grad():
                self.policy.get_distribution(observations)
            assert self._latent is not None
            rows = np.zeros((len(self._latent), self.engine.obs_dim))
            self._encode_into(rows)
        finally:
            hook.remove()
        return rows

    def _encode_into(self, rows: np.ndarray) -> None:
        assert self._latent is not None
        features, width = _numpy(self._latent), self.engine.features_dim
        rows[:, :width] = features if self.projection is None else features @ self.projection
        self._write(self.kind.distribution, rows[:, width:])


def reading(
    policy: Any, width: int
) -> tuple[External, Callable[[Any, np.ndarray], None], Callable[[np.ndarray], torch.Tensor]]:
    """(engine, write, read) for a policy of which so many features are balanced.

    `write` puts a distribution into outputs [n, …], `read` makes the tensor of the rows that were drawn.
    """
    kind = policy.action_dist
    if type(kind) is DiagGaussianDistribution:
        return External(width, gaussian=kind.action_dim), _write_gaussian, _read_real
    if type(kind) is CategoricalDistribution:
        return External(width, choices=[kind.action_dim]), _write_categorical, _read_one
    if type(kind) is MultiCategoricalDistribution:
        return External(width, choices=[int(n) for n in kind.action_dims]), _write_several, _read_several
    if type(kind) is BernoulliDistribution:
        return External(width, choices=[2] * kind.action_dims), _write_flags, _read_real
    why = ": with use_sde the noise stays the same for a while" if getattr(policy, "use_sde", False) else ""
    raise SpecError(NO_BALANCE.format(type(kind).__name__, why))


def _numpy(x: torch.Tensor) -> np.ndarray:
    return np.asarray(x.detach().cpu().numpy())


def _write_gaussian(result: Any, out: np.ndarray) -> None:
    out[:, 0::2], out[:, 1::2] = _numpy(result.loc), np.log(_numpy(result.scale))


def _write_categorical(result: Any, out: np.ndarray) -> None:
    out[...] = _numpy(result.logits)


def _write_several(result: Any, out: np.ndarray) -> None:
    at = 0
    for part in result:
        logits = _numpy(part.logits)
        out[:, at : at + logits.shape[1]] = logits
        at += logits.shape[1]


def _write_flags(result: Any, out: np.ndarray) -> None:
    """Of each flag the logits of 0 and 1."""
    out[:, 0::2], out[:, 1::2] = 0.0, _numpy(result.logits)


def _read_one(rows: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(rows[:, 0].astype(np.int64))


def _read_several(rows: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(rows.astype(np.int64))


def _read_real(rows: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(rows.astype(np.float32))
