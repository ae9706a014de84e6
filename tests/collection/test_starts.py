"""No start is met twice by accident: across looks, after initial data, in vector environments of every kind."""

from __future__ import annotations

import functools
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from evenroll.errors import SpecError
from evenroll.estimators import get_estimator
from evenroll.evaluation.evaluate import Budget, evaluate_source
from evenroll.evaluation.looking import Look
from evenroll.evaluation.sources import EnvironmentSource
from evenroll.policies import MLP

POLE = functools.partial(gym.make, "CartPole-v1")


def policy() -> MLP:
    rng = np.random.default_rng(1)
    return MLP([(rng.normal(size=(8, 4)), np.zeros(8))], rng.normal(size=(2, 8)), np.zeros(2))


def dummy_vec_env() -> Any:
    return pytest.importorskip("stable_baselines3.common.vec_env").DummyVecEnv([POLE] * 4)


KINDS = {
    "single": POLE,
    "next step": lambda: gym.vector.SyncVectorEnv([POLE] * 4),
    "same step": lambda: gym.vector.SyncVectorEnv([POLE] * 4, autoreset_mode=gym.vector.AutoresetMode.SAME_STEP),
    "disabled": lambda: gym.vector.SyncVectorEnv([POLE] * 4, autoreset_mode=gym.vector.AutoresetMode.DISABLED),
    "native": lambda: gym.make_vec("CartPole-v1", 4),
    "native, vectorised": lambda: gym.make_vec("CartPole-v1", 4, vectorization_mode="vector_entry_point"),
    "stable-baselines3": dummy_vec_env,
}


def starts(data: Any) -> np.ndarray:
    return data.observations[np.append(0, data.ends[:-1])]


def collected(kind: str, goals: tuple[int, ...], **options: Any) -> Any:
    """The data after looking at each of these numbers of episodes."""
    env = KINDS[kind]()
    settings = {"gamma": None, "seed": 0, "horizon": None, "initial": None, "deterministic": False} | options
    source = EnvironmentSource(env, policy(), "auto", **settings)
    for goal in goals:
        for _ in source.collect(goal, None, at_once=True):
            pass
    data = source.rollouts()
    source.close()
    env.close()
    return data


@pytest.mark.parametrize("kind", KINDS)
def test_looking_again_meets_new_starts(kind: str) -> None:
    """CartPole's starts are four uniform numbers: two that are equal come from one seed."""
    data = collected(kind, (7, 8, 20, 33))
    assert data.episodes >= 33
    assert len(np.unique(starts(data), axis=0)) == data.episodes


@pytest.mark.parametrize("kind", KINDS)
def test_data_of_the_same_seed_in_front_is_not_met_again(kind: str) -> None:
    first = collected(kind, (12,))
    both = collected(kind, (12,), initial=first)
    assert both.initial_episodes == first.episodes
    assert len(np.unique(starts(both), axis=0)) == both.episodes
    more = collected(kind, (12,), initial=collected(kind, (12,), initial=first))
    assert len(np.unique(starts(more), axis=0)) == more.episodes >= 36


def test_actions_after_initial_data_have_a_stream_of_their_own() -> None:
    """With the same seed and on-policy, the old stream would give the same actions wherever the probabilities are near."""
    first = collected("single", (12,))
    second = collected("single", (12,), initial=first).split_initial()[1]
    steps = min(len(first.actions), len(second.actions))
    assert 0.2 < np.mean(first.actions[:steps] == second.actions[:steps]) < 0.8


def test_stopping_in_a_vector_environment_does_not_repeat_itself() -> None:
    env = KINDS["next step"]()
    source = EnvironmentSource(env, policy(), "os", gamma=None, seed=0, horizon=None, initial=None, deterministic=False)
    result = evaluate_source(source, Look(get_estimator("mc")), Budget.of(1500, None, "4%"), 0.95)
    data = source.rollouts()
    assert result.episodes == data.episodes > 200  # more than one look
    assert len(np.unique(starts(data), axis=0)) == data.episodes
    env.close()


@pytest.mark.parametrize("seed", [-1, None, 1.5, True])
def test_a_seed_is_a_whole_number(seed: Any) -> None:
    with pytest.raises(SpecError, match="seed must be a whole number"):
        collected("single", (1,), seed=seed)
