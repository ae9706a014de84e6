"""No start is met twice by accident: across looks, after initial data, in vector environments of every kind."""

from __future__ import annotations

import functools
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import evenroll
from evenroll.collection.environments import collect
from evenroll.collection.rollout_files import save_rollouts
from evenroll.errors import DataError, EnvironmentFault, SpecError
from evenroll.estimators import get_estimator
from evenroll.evaluation.evaluate import Budget, evaluate_source
from evenroll.evaluation.looking import Look
from evenroll.evaluation.sources import EnvironmentSource
from evenroll.policies import MLP

POLE = functools.partial(gym.make, "CartPole-v1")


def policy(scale: float = 1.0) -> MLP:
    rng = np.random.default_rng(1)
    return MLP([(rng.normal(size=(8, 4)), np.zeros(8))], scale * rng.normal(size=(2, 8)), np.zeros(2))


def dummy_vec_env() -> Any:
    return pytest.importorskip("stable_baselines3.common.vec_env").DummyVecEnv([POLE] * 4)


def subprocesses() -> Any:
    return pytest.importorskip("stable_baselines3.common.vec_env").SubprocVecEnv([POLE] * 4, start_method="fork")


KINDS = {
    "single": POLE,
    "next step": lambda: gym.vector.SyncVectorEnv([POLE] * 4),
    "same step": lambda: gym.vector.SyncVectorEnv([POLE] * 4, autoreset_mode=gym.vector.AutoresetMode.SAME_STEP),
    "disabled": lambda: gym.vector.SyncVectorEnv([POLE] * 4, autoreset_mode=gym.vector.AutoresetMode.DISABLED),
    "native": lambda: gym.make_vec("CartPole-v1", 4),
    "native, vectorised": lambda: gym.make_vec("CartPole-v1", 4, vectorization_mode="vector_entry_point"),
    "async": lambda: gym.vector.AsyncVectorEnv([POLE] * 4),
    "stable-baselines3": dummy_vec_env,
    "stable-baselines3, processes": subprocesses,
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


def test_episodes_that_were_taken_out_do_not_come_again(tmp_path) -> None:
    """Of twelve episodes the last six are taken out of a file, by somebody who knows only its columns."""
    import pyarrow.parquet as pq

    first = collected("single", (12,))
    save_rollouts(first, tmp_path / "all.parquet")
    table = pq.read_table(tmp_path / "all.parquet").replace_schema_metadata(None).to_pydict()
    for name, kept in (("early", range(6)), ("late", range(3, 12))):
        rows = [i for i, episode in enumerate(table["episode"]) if episode in kept]
        part = {column: [values[i] for i in rows] for column, values in table.items()}
        data = collected("single", (12,), initial=part)
        new = starts(data.split_initial()[1])
        assert data.initial_episodes == len(kept)
        again = len(np.unique(np.concatenate([starts(first), new]), axis=0)) < 24
        assert again == (name == "early")  # the file does not tell that there were more after those it has
    for file in ("six.safetensors", "six.parquet"):  # our own files tell
        save_rollouts(first.prefix(int(first.ends[5])), tmp_path / file)
        new = starts(collected("single", (12,), initial=tmp_path / file).split_initial()[1])
        assert len(np.unique(np.concatenate([starts(first), new]), axis=0)) == 24


def test_after_a_fault_and_after_resume_starts_are_new(tmp_path) -> None:
    """The environment fails in its eighth episode; another goes on from what was kept, and a third from a saved one."""

    class Failing(gym.Wrapper):
        resets = 0

        def reset(self, **options: Any) -> Any:
            self.resets += 1
            if self.resets == 8:
                raise RuntimeError("out of fuel")
            return super().reset(**options)

    with pytest.raises(EnvironmentFault) as caught:
        evenroll.evaluate(Failing(POLE()), policy(), episodes=20)
    kept = caught.value.rollouts
    assert kept.episodes == 7
    data = collected("single", (13,), initial=kept)
    assert len(np.unique(starts(data), axis=0)) == data.episodes == 20

    first, env = evenroll.Collector(policy()), POLE()
    for _ in collect(first, env, episodes=7):
        pass
    first.save(tmp_path / "half.safetensors")
    second = evenroll.Collector(policy()).resume(tmp_path / "half.safetensors")
    for _ in collect(second, env, episodes=20):
        pass
    assert len(np.unique(starts(second.rollouts()), axis=0)) == 20
    with pytest.raises(DataError, match=r"^\.: it is not a regular file"):
        evenroll.Collector(policy()).resume(".")


@pytest.mark.parametrize("kind", KINDS)
def test_a_difference_shares_every_start_and_repeats_none(kind: str) -> None:
    """Ten starts in lanes of four: two whole rounds and a half, met by two policies whose episodes differ in length."""
    env, met = KINDS[kind](), []
    for push in (1.0, 3.0):
        settings = {"gamma": None, "seed": 5, "horizon": None, "initial": None, "deterministic": False, "in_rounds": True}
        source = EnvironmentSource(env, policy(push), "auto", **settings)
        for _ in source.collect(10, None, at_once=True):
            pass
        met.append(source.rollouts())
        source.close()
    env.close()
    np.testing.assert_array_equal(starts(met[0]), starts(met[1]))
    assert len(np.unique(starts(met[0]), axis=0)) == met[0].episodes == 10
    assert (met[0].lengths != met[1].lengths).any()


def test_two_hashes_that_are_equal_do_not_make_one_start() -> None:
    """With seed 885 the hashes of episodes 104 and 349 are equal."""
    data = collected("single", (350,), seed=885)
    assert len(np.unique(starts(data), axis=0)) == 350


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
