"""Every kind of policy, beside the words of the library that it comes from: what it plays, and what its draws are worth.

`Track` is an environment whose value is known from the policy alone: what is observed does not depend on the actions, and
the reward is linear in them. So all noise of the returns is noise of the actions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector.utils import concatenate, create_empty_array, iterate
from scipy import stats
from scipy.special import ndtr
from torch.distributions import (
    AffineTransform,
    Categorical,
    Distribution,
    Normal,
    TanhTransform,
    TransformedDistribution,
)

from evenroll.adapters.latent_noise import LatentNoise

Box = gym.spaces.Box
VECTOR, STATES, IMAGES = Box(-np.inf, np.inf, (3,), np.float32), gym.spaces.Discrete(9), Box(0, 255, (1, 8, 8), np.uint8)
PARTS = gym.spaces.Dict({"place": Box(-2.0, 2.0, (2, 2), np.float32), "flags": gym.spaces.MultiBinary(3)})
DISCRETE, WIDE = gym.spaces.Discrete(3, start=-1), Box(-99.0, 99.0, (2,), np.float32)
MULTI, FLAGS, ONE_HOT = gym.spaces.MultiDiscrete([2, 3]), gym.spaces.MultiBinary(4), Box(0.0, 1.0, (3,), np.float32)
STEPS = 3  # of an episode on the known track


class Track(gym.Env):
    """Observations that no action changes, and a reward that is linear in the action (of a discrete one: any number).

    It is the same at every step, so that the advantages lie in the span of the scores, whatever a network's features are.

    known  the same three observations in every episode. Else they are drawn, and so is the length, from 2 to 6.
    """

    def __init__(self, kind: Kind, known: bool, log: list[Any] | None = None) -> None:
        self.observation_space, self.action_space, self.known = kind.observations, kind.actions, known
        self.log: list[Any] = [] if log is None else log
        self.same = observed(kind.observations, 0)
        rng = np.random.default_rng(5)
        self.worth = rng.normal(size=gym.spaces.flatdim(kind.actions))
        self.masks = rng.random((8, 3)) < 0.6
        self.masks[np.arange(8), rng.integers(3, size=8)] = True
        if kind.masked:
            self.action_masks = lambda: self.masks[self.t]

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        drawn = None if self.known else int(self.np_random.integers(1 << 30))
        self.t, self.length = 0, STEPS if drawn is None else 2 + drawn % 5
        self.seen, self.played = self.same if drawn is None else observed(self.observation_space, drawn), []
        return self.seen[0], {}

    def reward(self, action: Any) -> float:
        if isinstance(self.action_space, gym.spaces.Discrete):
            return float(self.worth[int(action) - self.action_space.start])
        return float(self.worth @ gym.spaces.flatten(self.action_space, action))

    def rewards(self, batch: Any) -> np.ndarray:
        """The rewards of a batch of actions."""
        return _flat(self.action_space, batch) @ self.worth

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), action
        reward = self.reward(action)
        self.t += 1
        self.played.append(action)
        if self.t == self.length:
            self.log.append((self.seen[: self.t], self.played))
        return self.seen[self.t], reward, self.t == self.length, False, {}


def observed(space: gym.Space, seed: int) -> list[Any]:
    """Seven observations that the seed decides."""
    space.seed(seed)
    return [space.sample() for _ in range(7)]


def stacked(space: gym.Space, items: list[Any]) -> Any:
    """Observations or actions as a batch of them."""
    return concatenate(space, items, create_empty_array(space, len(items)))


def _flat(space: gym.Space, batch: Any) -> np.ndarray:
    """Gymnasium's `flatten` of every row of a batch: [n, numbers], of a choice a 1 among zeros."""
    if isinstance(space, gym.spaces.Dict):
        return np.concatenate([_flat(part, batch[key]) for key, part in space.items()], axis=1)
    rows = np.asarray(batch)
    if isinstance(space, gym.spaces.Discrete):
        return np.eye(int(space.n))[rows.reshape(-1) - int(space.start)]
    if isinstance(space, gym.spaces.MultiDiscrete):
        return np.concatenate([np.eye(int(n))[rows[:, i] - int(space.start[i])] for i, n in enumerate(space.nvec)], axis=1)
    return rows.reshape(len(rows), -1).astype(np.float64)


def apart(space: gym.Space, batch: Any) -> list[Any]:
    return list(iterate(gym.vector.utils.batch_space(space, _size(batch)), batch))


def _size(batch: Any) -> int:
    while isinstance(batch, dict | tuple):
        batch = next(iter(batch.values())) if isinstance(batch, dict) else batch[0]
    return len(batch)


@dataclass(frozen=True)
class Own:
    """What the library itself does with a batch of n observations x, which begin an episode where the state is None.

    draw   (x, state, masks) → (actions as the environment wants them, state): its own stochastic rollout
    judge  (x, rows, state, masks) → (log π of what was drawn, the actions that it becomes, state); None where the library
           does not tell, so that nothing is balanced
    """

    draw: Callable[[Any, Any, Any], tuple[Any, Any]]
    judge: Callable[[Any, np.ndarray, Any, Any], tuple[Any, Any, Any]] | None


@dataclass(frozen=True)
class Kind:
    """make: from a directory, the policy as it is given to evenroll, and what the library says of it (None: no chance)."""

    make: Callable[[Path], tuple[Any, Own | None]]
    actions: gym.Space
    observations: gym.Space = field(default_factory=lambda: VECTOR)
    masked: bool = False


# ---- what the libraries say ------------------------------------------------------------------------------------------


def tensors(x: Any) -> Any:
    return {key: tensors(part) for key, part in x.items()} if isinstance(x, dict) else torch.as_tensor(x).float()


def becomes(space: gym.Space, rows: Any) -> Any:
    """Numbers that were drawn, as actions: shifted to the space's own numbers, or clipped to its bounds."""
    rows = np.asarray(rows)
    if isinstance(space, gym.spaces.Discrete):
        return rows.reshape(len(rows)).astype(np.int64) + int(space.start)
    if isinstance(space, Box):
        return np.clip(rows.reshape(len(rows), *space.shape), space.low, space.high).astype(space.dtype)
    return rows.reshape(len(rows), *space.shape).astype(space.dtype)


def summed(log_prob: torch.Tensor) -> np.ndarray:
    return log_prob.reshape(len(log_prob), -1).sum(dim=1).double().numpy()


def says(space: gym.Space, give: Callable[[Any, Any], tuple[Distribution, Any]]) -> Own:
    """A library that gives distributions of torch for tensors x and a state: draws and probabilities are theirs."""

    def draw(x: Any, state: Any, masks: Any) -> Any:
        distribution, state = give(tensors(x), state)
        return becomes(space, distribution.sample().numpy()), state

    def judge(x: Any, rows: np.ndarray, state: Any, masks: Any) -> Any:
        distribution, state = give(tensors(x), state)
        single = isinstance(distribution, Categorical) and distribution.logits.ndim == 2
        given = torch.as_tensor(rows[:, 0] if single else rows)
        return summed(distribution.log_prob(given)), becomes(space, rows), state

    return Own(draw, judge)


def module(policy: Any, space: gym.Space, **more: Any) -> Kind:
    """A module that gives a distribution."""
    return Kind(lambda _: (made := policy(), says(space, lambda x, state: (made(x), None))), space, **more)


def read(policy: Any, space: gym.Space, reading: Callable[[Any], Distribution], **more: Any) -> Kind:
    """A module whose outputs are read as a distribution."""
    return Kind(lambda _: (made := policy(), says(space, lambda x, state: (reading(made(x)), None))), space, **more)


class Several(Distribution):
    """Independent categorical distributions beside each other, from logits."""

    def __init__(self, out: torch.Tensor) -> None:
        self.parts = [Categorical(logits=part) for part in torch.split(out, MULTI.nvec.tolist(), dim=1)]

    def sample(self, shape: Any = ()) -> torch.Tensor:
        return torch.stack([part.sample() for part in self.parts], dim=1)

    def log_prob(self, rows: torch.Tensor) -> torch.Tensor:
        return torch.stack([part.log_prob(rows[:, i]) for i, part in enumerate(self.parts)], dim=1)


def remembers(policy: Any, step: str) -> Kind:
    def make(_: Path) -> Any:
        made = policy()
        return made, says(DISCRETE, getattr(made, step))

    return Kind(make, DISCRETE)


def noise(policy: Any, space: gym.Space, becoming: Callable[[Any, Any, np.ndarray], Any]) -> Kind:
    """A module whose noise is balanced: it is a standard Gaussian, and becomes an action of the module's distribution."""

    def make(_: Path) -> Any:
        made = policy()

        def draw(x: Any, state: Any, masks: Any) -> Any:
            given = made(tensors(x))
            if isinstance(given, dict):
                parts = {key: becomes(space[key], part.sample().numpy()) for key, part in given.items()}  # type: ignore[index]
                return parts, None
            return becomes(space, given.sample().numpy()), None

        return made, Own(draw, lambda x, z, state, masks: (density(z), becoming(made, tensors(x), z), None))

    return Kind(make, space)


def density(z: np.ndarray) -> np.ndarray:
    return stats.norm.logpdf(z).sum(axis=1)


def of_beta(made: Any, x: Any, z: np.ndarray) -> np.ndarray:
    given = made(x)
    return stats.beta.ppf(ndtr(z), given.concentration1.double().numpy(), given.concentration0.double().numpy())


def of_correlated(made: Any, x: Any, z: np.ndarray) -> np.ndarray:
    """The density of the action is checked here too: it is that of z over the volume of the map."""
    given = made(x)
    root = given.scale_tril.double()
    action = given.loc.double() + (root @ torch.as_tensor(z)[:, :, None])[:, :, 0]
    theirs = given.log_prob(action.float()).double().numpy() + root.logdet().numpy()
    np.testing.assert_allclose(theirs, density(z), atol=1e-5, rtol=1e-5)
    return becomes(WIDE, action)


def of_mixed(made: Any, x: Any, z: np.ndarray) -> dict[str, np.ndarray]:
    given = made(x)
    below = given["kind"].probs.double().numpy().cumsum(axis=1)
    where = 3.0 * np.tanh(given["where"].base_dist.loc.numpy() + 0.5 * z[:, 1:])
    return {"kind": 1 + (below <= ndtr(z[:, :1])).sum(axis=1), "where": where}


def squashed(mean: torch.Tensor, log_std: torch.Tensor, rows: np.ndarray, bias: Any, scale: Any) -> Any:
    """log π before the squash, and bias + scale·tanh of what was drawn."""
    before = summed(Normal(mean, log_std.exp()).log_prob(torch.as_tensor(rows)))
    return before, np.asarray(bias) + np.asarray(scale) * np.tanh(rows), None


def latent(kind: str, batched: bool) -> Kind:
    """A smooth map from noise to actions, as of a flow or diffusion policy."""

    def act(x: np.ndarray, z: np.ndarray) -> np.ndarray:
        return np.tanh(0.2 * x[..., :2] + z[..., :2] + 0.5 * z[..., 1:3])

    def handed(z: np.ndarray) -> np.ndarray:
        return z if kind == "gaussian" else ndtr(z)

    def draw(x: Any, state: Any, masks: Any) -> Any:
        z = np.random.standard_normal((len(x), 3)) if kind == "gaussian" else np.random.random((len(x), 3))
        return becomes(WIDE, act(x, z)), None

    own = Own(draw, lambda x, z, state, masks: (density(z), act(x, handed(z)), None))
    return Kind(lambda _: (LatentNoise(act, 3, kind=kind, batched=batched), own), WIDE)


# ---- functions of one observation ------------------------------------------------------------------------------------


def shy(x: Any) -> np.ndarray:
    """Probabilities of three actions."""
    first = np.ravel(x["place"] if isinstance(x, dict) else x)[0]
    p = 1.0 / (1.0 + np.exp(-float(first)))
    return np.array([0.8 * (1.0 - p), 0.8 * p, 0.2])


class Other:
    """An array of another library, which NumPy can read: what JAX's are."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.asarray(self.values, dtype=dtype)


def squash(x: np.ndarray) -> Distribution:
    mean = torch.tensor([0.1 * x[0], -0.2])
    return TransformedDistribution(Normal(mean, torch.ones(2)), [TanhTransform(), AffineTransform(0.0, 0.5)])


def function(give: Callable[[Any], Any], space: gym.Space, observations: gym.Space = VECTOR, wrap: Any = None) -> Kind:
    """One of probabilities. `wrap` turns them into what the function gives."""

    def given(x: Any) -> Any:
        p = give(x)
        return p if wrap is None else wrap(p)

    def theirs(x: Any) -> Categorical:
        return Categorical(probs=torch.as_tensor(np.stack([give(o) for o in apart(observations, x)])))

    own = says(space, lambda x, state: (theirs(x), None))
    return Kind(lambda _: (given, Own(own.draw, own.judge)), space, observations)


def squash_function() -> Kind:
    def draw(x: Any, state: Any, masks: Any) -> Any:
        assert (x == x[0]).all()  # so that one distribution will do
        return squash(x[0]).sample((len(x),)).numpy(), None

    def judge(x: Any, rows: np.ndarray, state: Any, masks: Any) -> Any:
        mean = torch.stack([squash(o).base_dist.loc for o in x])  # type: ignore[attr-defined]
        return squashed(mean, torch.zeros_like(mean), rows, 0.0, 0.5)

    return Kind(lambda _: (squash, Own(draw, judge)), WIDE)


def one_hot(policy: Any) -> Kind:
    """A module that gives a OneHotCategorical, for a Box."""

    def make(_: Path) -> Any:
        made = policy()

        def judge(x: Any, rows: np.ndarray, state: Any, masks: Any) -> Any:
            chosen = np.eye(3, dtype=np.float32)[rows[:, 0].astype(int)]
            return summed(made(tensors(x)).log_prob(torch.as_tensor(chosen))), chosen, None

        return made, Own(lambda x, *_: (made(tensors(x)).sample().numpy(), None), judge)

    return Kind(make, ONE_HOT)


class Choosy(torch.nn.Module):
    """Takes a mask beside the observation."""

    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 3))

    def forward(self, x: torch.Tensor, action_mask: torch.Tensor) -> Categorical:
        return Categorical(logits=self.net(x).masked_fill(~action_mask, -torch.inf))


def masked(as_function: bool) -> Kind:
    """The module itself, or a function of one observation and its mask that gives its probabilities."""

    def make(_: Path) -> Any:
        module = Choosy()

        def probabilities(x: np.ndarray, mask: np.ndarray) -> np.ndarray:
            with torch.no_grad():
                return module(torch.as_tensor(x)[None], torch.as_tensor(mask)[None]).probs[0].numpy()

        def draw(x: Any, state: Any, masks: Any) -> Any:
            return becomes(DISCRETE, module(tensors(x), torch.as_tensor(masks)).sample()), None

        def judge(x: Any, rows: np.ndarray, state: Any, masks: Any) -> Any:
            given = module(tensors(x), torch.as_tensor(masks))
            return summed(given.log_prob(torch.as_tensor(rows[:, 0]))), becomes(DISCRETE, rows), None

        return probabilities if as_function else module, Own(draw, judge)

    return Kind(make, DISCRETE, masked=True)
