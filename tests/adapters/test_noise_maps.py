"""Distributions whose noise is balanced: the action is the library's for the same noise, and leads back to it."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from scipy import stats
from torch.distributions import (
    AffineTransform,
    Beta,
    Categorical,
    Independent,
    Laplace,
    LogNormal,
    MixtureSameFamily,
    MultivariateNormal,
    Normal,
    StudentT,
    TanhTransform,
    TransformedDistribution,
    Uniform,
)

import evenroll
from evenroll.adapters.model import as_model
from evenroll.adapters.noise_maps import NoiseMap
from evenroll.adapters.spaces import Actions
from evenroll.collection.environments import collect
from evenroll.collection.seeing import see
from evenroll.errors import DataError, PolicyError
from evenroll.evaluation.collector import Collector
from tests.helpers import Walk
from tests.torch_helpers import Head

UNIT, WIDE = gym.spaces.Box(0.0, 1.0, (2,), np.float32), gym.spaces.Box(-50.0, 50.0, (2,), np.float32)
MIXED = gym.spaces.Dict({"kind": gym.spaces.Discrete(3, start=1), "where": WIDE})
PAIR = gym.spaces.Tuple([gym.spaces.Discrete(2), gym.spaces.MultiDiscrete([2, 3])])
softplus = torch.nn.functional.softplus


def beta(out: torch.Tensor, _: Any) -> Beta:
    return Beta(softplus(out[:, :2]) + 0.6, softplus(out[:, 2:4]) + 0.6)


def stretched(out: torch.Tensor, _: Any) -> TransformedDistribution:
    return TransformedDistribution(Independent(beta(out, _), 1), [AffineTransform(-5.0, 10.0)])


def root_of(out: torch.Tensor) -> torch.Tensor:
    root = torch.zeros(len(out), 2, 2)
    root[:, 0, 0], root[:, 1, 1], root[:, 1, 0] = out[:, 2].exp(), out[:, 3].exp(), out[:, 0] + 0.7
    return root


def correlated(out: torch.Tensor, _: Any) -> MultivariateNormal:
    return MultivariateNormal(out[:, :2], scale_tril=root_of(out))


def mixed(out: torch.Tensor, _: Any) -> dict[str, Any]:
    squashed = TransformedDistribution(Normal(out[:, 3:5], 0.5), [TanhTransform(), AffineTransform(0.0, 3.0)])
    return {"kind": Categorical(logits=out[:, :3]), "where": squashed}


def pair(out: torch.Tensor, _: Any) -> dict[str, Any]:
    return tuple(Categorical(logits=part) for part in torch.split(out[:, :7], [2, 2, 3], dim=1))


class Watched(Walk):
    """A walk with actions of several parts."""

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), action
        self.seen.append(action)
        self.t += 1
        parts = action.values() if isinstance(action, dict) else action if isinstance(action, tuple) else [action]
        return self._look(), float(sum(np.sum(part) for part in parts)), self.t >= 6, False, {}


CASES: dict[str, tuple[Any, gym.Space]] = {
    "beta": (beta, UNIT), "stretched beta": (stretched, WIDE), "correlated": (correlated, WIDE), "mixed": (mixed, MIXED),
}  # fmt: skip


def collected(policy: Any, env: gym.Env, **options: Any) -> Collector:
    collector = Collector(policy, observation_space=env.observation_space, action_space=env.action_space, **options)
    for _ in collect(collector, env, episodes=12):
        pass
    return collector


@pytest.mark.parametrize("name", CASES)
def test_actions_come_of_their_noise_and_lead_back_to_it(name: str) -> None:
    make, space = CASES[name]
    torch.manual_seed(0)
    module, env = Head(3, 5, make), Watched(space)
    collector = collected(module, env)
    data, model = collector.rollouts(), collector.model
    assert model.described == "Head through torch, 16 features, its noise balanced"
    assert np.abs(data.log_b - data.log_e).max() > 1e-4
    batch = model.observations.shaped(data.observations)
    played = model.environment_actions
    rows = played.from_env(played.batch([_batch(space, a) for a in env.seen]))
    noise = model.noise_of(batch, rows)
    real = slice(1, None) if name == "mixed" else slice(None)
    np.testing.assert_allclose(noise[:, real], data.actions[:, real], atol=2e-3)  # the environment gets float32
    with torch.no_grad():
        result = module(torch.as_tensor(batch))
    if name == "beta":
        a, b = result.concentration1.double().numpy(), result.concentration0.double().numpy()
        np.testing.assert_allclose(rows, stats.beta.ppf(stats.norm.cdf(data.actions), a, b), atol=1e-5)
    if name == "correlated":
        moved = root_of(module.net(torch.as_tensor(batch))).detach() @ torch.as_tensor(data.actions).float()[:, :, None]
        np.testing.assert_allclose(rows, (result.loc + moved[:, :, 0]).numpy(), atol=1e-4)
    if name == "mixed":
        p = result["kind"].probs.double().numpy().cumsum(axis=1)
        expected = (p <= stats.norm.cdf(data.actions[:, :1])).sum(axis=1)
        np.testing.assert_array_equal(rows[:, 0], np.minimum(expected, 2))
    np.testing.assert_allclose(see(model, data).log_e, data.log_e)  # our own data has the noise
    collector.close()
    likeliest = as_model(module, env.observation_space, space, deterministic=True).decide(batch)
    if name == "correlated":
        np.testing.assert_allclose(likeliest, result.loc.numpy(), atol=1e-5)


def _batch(space: gym.Space, action: Any) -> Any:
    return {key: np.asarray(part)[None] for key, part in action.items()} if isinstance(action, dict) else action[None]


def test_a_function_may_give_them_too() -> None:
    """The same distribution from a function of one observation, in several lanes, is played in the same way."""
    module = Head(3, 5, beta)

    def one(x: np.ndarray) -> Beta:
        with torch.no_grad():
            whole = module(torch.as_tensor(x)[None])
        return Independent(Beta(whole.concentration1[0], whole.concentration0[0]), 1)

    env = Walk(UNIT)
    collector = collected(one, env)
    data = collector.rollouts()
    both = as_model(module, env.observation_space, UNIT)
    batch = data.observations.astype(np.float32)
    both.encode(batch)
    np.testing.assert_allclose(np.array(env.seen), both.play(batch, data.actions), atol=1e-5)
    np.testing.assert_allclose(collector.model.noise_of(batch, np.array(env.seen)), data.actions, atol=2e-3)
    lanes = gym.vector.SyncVectorEnv([lambda: Walk(UNIT)] * 3)
    assert evenroll.evaluate(lanes, one, episodes=6).episodes == 6
    assert evenroll.evaluate(env, one, episodes=3, deterministic=True).policy == "deterministic one"


def test_several_discrete_heads_are_factors() -> None:
    env = Watched(PAIR)
    collector = collected(Head(3, 7, pair), env)
    assert collector.model.actions.choices == (2, 2, 3)
    assert collector.model.play is None
    assert isinstance(env.seen[0][0], int)


def test_what_does_not_fit() -> None:
    for make, space, text in (
        (beta, gym.spaces.Box(0.0, 1.0, (3,), np.float32), "a Beta of 2 numbers"),
        (lambda out, _: beta(out, _), gym.spaces.Discrete(2), "a Beta of 2 numbers"),
        (lambda out, _: Categorical(logits=out[:, :3]), MIXED, "1 distributions for 2 actions"),
    ):
        with pytest.raises(PolicyError, match=text):
            as_model(Head(3, 5, make), Walk(space).observation_space, space)
    result = NoiseMap(Actions.of(UNIT))
    result.read(Beta(torch.ones(1, 2), torch.full((1, 2), 2.0)))
    np.testing.assert_allclose(result.likeliest(), [[1 / 3, 1 / 3]], atol=1e-6)  # no single peak inside: the mean


MIX = torch.tensor([[0.2, 0.5, 0.3]])
OTHERS = {
    "Laplace": lambda out, _: Laplace(out[:, :2], 0.5),
    "Uniform": lambda out, _: Uniform(out[:, :2], out[:, :2] + 2.0),
    "LogNormal": lambda out, _: Independent(LogNormal(0.1 * out[:, :2], 0.4), 1),
    "mixture": lambda out, _: MixtureSameFamily(
        Categorical(probs=MIX.expand(len(out), 2, 3)), Normal(out[:, :2, None] + torch.tensor([-3.0, 0.0, 2.0]), 0.5)
    ),
    "mixture of pairs": lambda out, _: MixtureSameFamily(
        Categorical(probs=MIX.expand(len(out), 3)),
        Independent(Normal(out[:, None, :2] + torch.tensor([-3.0, 0.0, 2.0])[:, None], 0.5), 1),
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_distributions_by_their_noise(name: str) -> None:
    """The actions of evenly spread noise have the distribution itself: its mean and its spread, and where known its cdf."""
    make = OTHERS[name]
    wide, many = Head(3, 5, make, width=4), 120
    noise = NoiseMap(Actions.of(WIDE))
    x = torch.zeros(1, 3)
    with torch.no_grad():
        given = wide(x)
        noise.read(given)
        even = stats.norm.ppf((np.arange(many) + 0.5) / many)
        choice = noise.width - 2  # numbers that choose among parts
        grid = np.stack(np.meshgrid(even, even, indexing="ij"), axis=-1).reshape(-1, 2)
        z = np.repeat(grid[:, 1:], noise.width, axis=1)
        z[:, :choice] = grid[:, :1]
        noise.read(wide(x.expand(len(z), 3)))
        played = noise.played(z)
    np.testing.assert_allclose(played.mean(axis=0), given.mean[0].numpy(), atol=0.02)
    np.testing.assert_allclose(played.std(axis=0), given.variance[0].sqrt().numpy(), rtol=0.03)
    if choice == 0:
        theirs = given.base_dist if name == "LogNormal" else given
        np.testing.assert_allclose(theirs.cdf(torch.as_tensor(played).float()).numpy(), stats.norm.cdf(z), atol=1e-5)
        np.testing.assert_allclose(noise.noise_of(played), z, atol=2e-3)
    result = evenroll.evaluate(Walk(WIDE), wide, episodes=12)
    assert result.policy == "Head through torch, 4 features, its noise balanced"
    assert evenroll.evaluate(Walk(WIDE), wide, episodes=3, deterministic=True).sampler == "os"


def test_what_a_mixture_cannot_tell() -> None:
    noise = NoiseMap(Actions.of(WIDE))
    with torch.no_grad():
        noise.read(Head(3, 5, OTHERS["mixture"])(torch.zeros(2, 3)))
    with pytest.raises(DataError, match="do not tell which noise"):
        noise.noise_of(np.zeros((2, 2)))
    with pytest.raises(PolicyError, match=r"StudentT.*evenroll\.LatentNoise"):
        as_model(Head(3, 5, lambda out, _: StudentT(5.0, out[:, :2])), Walk(WIDE).observation_space, WIDE)
