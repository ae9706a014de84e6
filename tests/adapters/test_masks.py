"""Masks of actions are used, wherever they come from, and asked for where they are missing."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

import evenroll
from evenroll.adapters.masks import joined, masks_of, with_masks
from evenroll.adapters.spaces import Actions, Observations
from evenroll.collection.environments import collect
from evenroll.collection.seeing import see
from evenroll.errors import SpecError
from evenroll.evaluation.collector import Collector
from evenroll.sb3 import evaluate_policy
from tests.helpers import Walk

N = 4


class Doors(Walk):
    """Of four doors some are open at each step; a closed one ends everything."""

    def __init__(self, told: str = "method") -> None:
        super().__init__(gym.spaces.Discrete(N))
        if told == "method":
            self.action_masks = lambda: self.open

    def _look(self):
        self.open = self.np_random.random(N) < 0.5
        self.open[self.np_random.integers(N)] = True
        return super()._look()

    def reset(self, **options):
        observation, _ = super().reset(**options)
        return observation, {"action_mask": self.open.astype(np.int8)}

    def step(self, action):
        assert self.open[int(action)], "a closed door"
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, terminated, truncated, {**info, "action_mask": self.open.astype(np.int8)}


class Uneven(Doors):
    """Episodes of different lengths, so that lanes begin anew at different times. In the end all doors are closed."""

    def reset(self, **options):
        observation, info = super().reset(**options)
        self.length = int(self.np_random.integers(2, 9))
        return observation, info

    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        if terminated:
            self.open = np.zeros(N, dtype=bool)
            info = {**info, "action_mask": np.zeros(N, np.int8)}
        return observation, reward, terminated, truncated, info


@pytest.fixture(scope="module")
def model() -> Any:
    contrib = pytest.importorskip("sb3_contrib")
    return contrib.MaskablePPO("MlpPolicy", Doors(), n_steps=16, batch_size=16, device="cpu", seed=0).learn(64)


def collected(model: Any, env: Any, space: gym.Space, lanes: int | None = None, episodes: int = 20) -> Collector:
    collector = Collector(model, lanes=lanes, observation_space=space, action_space=gym.spaces.Discrete(N))
    for _ in collect(collector, env, episodes=episodes):
        pass
    return collector


@pytest.mark.parametrize("told", ["method", "info"])
def test_only_allowed_actions_are_drawn_and_weighed(model: Any, told: str) -> None:
    """Every action lies behind an open door (the environment insists), and log π is the library's own with its masks."""
    env = Doors(told)
    collector = collected(model, env, env.observation_space)
    data = collector.rollouts()
    masks, x = data.observations[:, :N].astype(bool), torch.as_tensor(data.observations[:, N:], dtype=torch.float32)
    assert masks[np.arange(len(masks)), data.actions[:, 0].astype(int)].all()
    with torch.no_grad():
        theirs = model.policy.get_distribution(x, masks).log_prob(torch.as_tensor(data.actions[:, 0])).numpy()
    np.testing.assert_allclose(data.log_e, theirs, atol=1e-5)
    np.testing.assert_allclose(see(collector.model, data).log_e, data.log_e, atol=1e-5)
    assert np.abs(data.log_b - data.log_e).max() > 1e-4
    assert collector.result().policy == "MaskablePPO with its masks through torch, 64 features"


@pytest.mark.parametrize("told", ["method", "info"])
@pytest.mark.parametrize("kind", ["NEXT_STEP", "SAME_STEP", "DISABLED", "processes", "stable-baselines3"])
def test_masks_of_several_environments(model: Any, kind: str, told: str) -> None:
    """Whoever tells them, and whenever a lane begins anew: the environment insists on open doors."""
    makes, space = [lambda: Uneven(told)] * 3, Doors().observation_space
    if kind == "stable-baselines3":
        from stable_baselines3.common.vec_env import DummyVecEnv

        env: Any = DummyVecEnv(makes)
    elif kind == "processes":
        env = gym.vector.AsyncVectorEnv(makes)
    else:
        env = gym.vector.SyncVectorEnv(makes, autoreset_mode=gym.vector.AutoresetMode[kind])
    data = collected(model, env, space, 3).rollouts()
    env.close()
    assert data.episodes == 20
    masks = data.observations[:, :N].astype(bool)
    assert masks[np.arange(len(masks)), data.actions[:, 0].astype(int)].all()
    assert len(np.unique(masks, axis=0)) > 4


def test_the_likeliest_allowed_action(model: Any) -> None:
    env = Doors()
    result = evenroll.evaluate(env, model, episodes=10, deterministic=True)
    assert result.policy == "deterministic MaskablePPO with its masks"


@pytest.mark.parametrize("deterministic", [False, True])
def test_evaluate_policy_hands_masks_over(model: Any, deterministic: bool) -> None:
    """Before, the model was evaluated without its masks, and told so by nobody."""
    for told in ("method", "info"):
        mean, _ = evaluate_policy(model, Doors(told), n_eval_episodes=5, deterministic=deterministic, warn=False)
        assert np.isfinite(mean)


def test_a_policy_of_ones_own_may_take_masks() -> None:
    """A second parameter that is called a mask: of a module's forward, or of a function. It is never all False."""

    class Own(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = torch.nn.Linear(3, N)

        def forward(self, x: torch.Tensor, action_masks: torch.Tensor) -> torch.Tensor:
            assert action_masks.any(dim=1).all()
            return self.net(x).masked_fill(~action_masks, -torch.inf)

    def even(x: np.ndarray, mask: np.ndarray) -> np.ndarray:
        assert mask.dtype == bool
        return mask / mask.sum()

    for policy, described in ((Own(), "Own with its masks through torch"), (even, "even, 7 features")):
        for told in ("method", "info"):
            result = evenroll.evaluate(Doors(told), policy, episodes=12)
            assert result.policy.startswith(described)
            assert result.sampler == "auto"
        assert evenroll.evaluate(Doors(), policy, episodes=3, deterministic=True).sampler == "os"
        with pytest.raises(SpecError, match="needs masks"):
            evenroll.evaluate(Walk(gym.spaces.Discrete(N)), policy, episodes=3)
        with pytest.raises(SpecError, match="masks are for discrete actions"):
            evenroll.evaluate(Walk(gym.spaces.Box(-1.0, 1.0, (2,))), policy, episodes=3)


def test_masks_beside_observations_of_several_parts() -> None:
    contrib = pytest.importorskip("sb3_contrib")

    class Parts(Doors):
        def __init__(self) -> None:
            super().__init__()
            self.observation_space = gym.spaces.Dict({"a": self.observation_space, "b": gym.spaces.Discrete(3)})

        def _look(self):
            self.open = self.np_random.random(N) < 0.7
            self.open[self.np_random.integers(N)] = True
            return {"a": self.np_random.standard_normal(3).astype(np.float32), "b": int(self.np_random.integers(3))}

    model = contrib.MaskablePPO("MultiInputPolicy", Parts(), n_steps=16, batch_size=16, device="cpu", seed=0)
    for env in (Parts(), gym.vector.SyncVectorEnv([Parts] * 2)):
        result = evenroll.evaluate(env, model, episodes=10)
        assert result.resets > 0 or result.no_resets is None
        assert result.policy.startswith("MaskablePPO with its masks")


def test_several_masked_actions() -> None:
    contrib = pytest.importorskip("sb3_contrib")
    from sb3_contrib.common.envs import InvalidActionEnvMultiDiscrete

    env = InvalidActionEnvMultiDiscrete(dims=[3, 4], n_invalid_actions=2)
    model = contrib.MaskablePPO("MlpPolicy", env, n_steps=16, batch_size=16, device="cpu", seed=0)
    collector = Collector(model, observation_space=env.observation_space, action_space=env.action_space)
    for _ in collect(collector, env, episodes=5):
        pass
    data = collector.rollouts()
    masks, x = data.observations[:, :7], torch.as_tensor(data.observations[:, 7:], dtype=torch.float32)
    assert masks[:, :3][np.arange(len(masks)), data.actions[:, 0].astype(int)].all()
    assert masks[:, 3:][np.arange(len(masks)), data.actions[:, 1].astype(int)].all()
    with torch.no_grad():
        observed = x[:, 0].long() if isinstance(env.observation_space, gym.spaces.Discrete) else x
        theirs = model.policy.get_distribution(observed, masks.astype(bool)).log_prob(torch.as_tensor(data.actions))
    np.testing.assert_allclose(data.log_e, theirs.numpy(), atol=1e-5)


def test_missing_and_wrong_masks_are_refused(model: Any) -> None:
    plain = Walk(gym.spaces.Discrete(N))
    with pytest.raises(SpecError, match=r"ActionMasker\(env, mask_function\)"):
        evenroll.evaluate(plain, model, episodes=3)
    with pytest.raises(SpecError, match="needs masks"):
        collected(model, gym.vector.SyncVectorEnv([lambda: Walk(gym.spaces.Discrete(N))] * 2), plain.observation_space, 2)


def test_masks_that_make_no_sense_are_refused() -> None:
    actions = Actions.of(gym.spaces.Discrete(N))
    observed = with_masks(Observations.of(Walk(actions.space).observation_space), actions)
    x = np.zeros(3)
    assert joined(observed, x, [True, False, True, True], 1)["action_mask"].tolist() == [[1, 0, 1, 1]]
    for mask, text in (
        ([True] * 3, "3 entries"),
        ([False] * 4, "at least one"),
        ([0.5] * 4, "True or False"),
        (None, "needs masks"),
    ):
        with pytest.raises(SpecError, match=text):
            joined(observed, x, mask, 1)
    with pytest.raises(SpecError, match="discrete"):
        with_masks(observed, Actions.of(gym.spaces.Box(-1, 1, (2,))))
    assert masks_of(Doors("info"))({"action_mask": [1, 0]}) == [1, 0]
