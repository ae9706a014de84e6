"""The statistics of a VecNormalize: given in a file that is read and not run, and asked for where they are missing."""

from __future__ import annotations

import functools
import json
import pickle
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3 import A2C, DQN, PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize
from typer.testing import CliRunner

import evenroll
from evenroll.adapters.loading import load_environment
from evenroll.adapters.normalization import Normalization, is_normalised, load_normalization, unnormalised
from evenroll.cli.app import app
from evenroll.errors import DataError, SpecError
from evenroll.sb3 import export_normalization
from tests.helpers import command

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
POLE = functools.partial(gym.make, "CartPole-v1")


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> tuple[PPO, VecNormalize, Path]:
    """A model that was trained in a VecNormalize, that VecNormalize, and the place of their files."""
    place = tmp_path_factory.mktemp("normalised")
    venv = VecNormalize(make_vec_env("CartPole-v1", 2, seed=0), clip_obs=2.0, epsilon=1e-4)
    model = PPO("MlpPolicy", venv, n_steps=128, n_epochs=1, seed=0, device="cpu").learn(256)
    model.save(place / "model.zip")
    venv.save(place / "vecnormalize.pkl")
    export_normalization(venv, place / "norm.safetensors")
    return model, venv, place


@pytest.mark.parametrize("file", ["vecnormalize.pkl", "norm.safetensors"])
def test_observations_are_what_the_policy_knows(trained: tuple[PPO, VecNormalize, Path], file: str) -> None:
    _, venv, place = trained
    found = load_normalization(place / file)
    x = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32) * 3
    np.testing.assert_array_equal(found.of(x), venv.normalize_obs(x))
    assert np.abs(found.of(x)).max() == 2.0  # some are clipped
    env = load_environment("CartPole-v1", None, found)
    plain, _ = POLE().reset(seed=3)
    np.testing.assert_array_equal(env.reset(seed=3)[0], venv.normalize_obs(plain))


@pytest.mark.parametrize("protocol", range(3, 6))
def test_every_kind_of_pickle_is_read(trained: tuple[PPO, VecNormalize, Path], tmp_path: Path, protocol: int) -> None:
    _, venv, _ = trained
    (tmp_path / "a.pkl").write_bytes(pickle.dumps(venv, protocol))
    found = load_normalization(tmp_path / "a.pkl")
    np.testing.assert_array_equal(found.mean, venv.obs_rms.mean)
    np.testing.assert_array_equal(found.var, venv.obs_rms.var)
    assert (found.clip, found.epsilon) == (2.0, 1e-4)


def test_the_command_line_says_what_is_missing_and_takes_it(trained: tuple[PPO, VecNormalize, Path]) -> None:
    """With the statistics the value is that of the same model in its VecNormalize; without them it is said."""
    model, venv, place = trained
    run = command("evaluate", "CartPole-v1", "--policy", "model.zip", "--episodes", "40", cwd=place)
    assert run.returncode == 0, run.stderr
    for text in (run.stdout, run.stderr):
        assert "the policy was trained in a VecNormalize" in text
        assert "--normalize vecnormalize.pkl" in text
    for file in ("vecnormalize.pkl", "norm.safetensors"):
        options = ("--episodes", "40", "--normalize", str(place / file), "--json", str(place / f"{file}.json"))
        run = CliRunner().invoke(app, ["evaluate", "CartPole-v1", "--policy", str(place / "model.zip"), *options])
        assert run.exit_code == 0, run.output
        assert "VecNormalize" not in run.output
    values = {file: (place / f"{file}.json").read_text() for file in ("vecnormalize.pkl", "norm.safetensors")}
    assert values["vecnormalize.pkl"] == values["norm.safetensors"]
    wrapped = load_environment("CartPole-v1", None, load_normalization(place / "norm.safetensors"))
    ours = evenroll.evaluate(wrapped, model, episodes=40).value  # its critic is asked through torch, in single precision
    assert json.loads(values["norm.safetensors"])["value"] == pytest.approx(ours, rel=1e-6)
    theirs = VecNormalize(DummyVecEnv([POLE]), training=False, norm_reward=False, clip_obs=2.0, epsilon=1e-4)
    theirs.obs_rms = venv.obs_rms
    one = evenroll.evaluate(theirs, model, episodes=200, sampler="os")
    two = evenroll.evaluate(wrapped, model, episodes=200, sampler="os", seed=1)
    assert one.low < two.high
    assert two.low < one.high


def test_a_difference_and_a_collection_take_them_too(trained: tuple[PPO, VecNormalize, Path]) -> None:
    place, zip_file = trained[2], str(trained[2] / "model.zip")
    for command_line in (
        ["difference", "CartPole-v1", "--policy", zip_file, "--against", zip_file, "--episodes", "6"],
        ["collect", "CartPole-v1", "--policy", zip_file, "--episodes", "3", "--out", str(place / "data.parquet")],
    ):
        assert "trained in a VecNormalize" in CliRunner().invoke(app, command_line).output
        run = CliRunner().invoke(app, [*command_line, "--normalize", str(place / "vecnormalize.pkl")])
        assert (run.exit_code, "VecNormalize" in run.output) == (0, False)
    assert np.abs(evenroll.load_rollouts(place / "data.parquet").observations).max() <= 2.0


@pytest.mark.parametrize("algorithm", [PPO, A2C, DQN])
def test_the_sign_of_a_zip(algorithm: Any, tmp_path: Path) -> None:
    """Reliable for what learns on-policy. Of others nothing is said, because they show the same sign always."""
    settings = {"n_steps": 16} if algorithm is not DQN else {"learning_starts": 5, "buffer_size": 100}
    for normal in (False, True):
        venv = make_vec_env("CartPole-v1", 1)
        model = algorithm("MlpPolicy", VecNormalize(venv) if normal else venv, device="cpu", **settings).learn(32)
        model.save(tmp_path / "a.zip")
        said = normal and algorithm is not DQN
        assert bool(unnormalised(str(tmp_path / "a.zip"))) == said
        assert bool(unnormalised(algorithm.load(tmp_path / "a.zip", device="cpu"))) == said
        assert bool(unnormalised(model)) == normal  # in Python the model has its environment


def test_a_model_is_warned_of_where_it_misses_its_statistics(trained: tuple[PPO, VecNormalize, Path]) -> None:
    model, venv, _ = trained
    assert any("trained in a VecNormalize" in text for text in evenroll.evaluate(POLE(), model, episodes=3).warnings)
    normal = VecNormalize(DummyVecEnv([POLE]), training=False, norm_reward=False)
    normal.obs_rms = venv.obs_rms
    assert evenroll.evaluate(normal, model, episodes=3).warnings == ()
    assert is_normalised(normal)
    assert unnormalised("nothing.zip") == unnormalised("policy.safetensors") == unnormalised(None) == ()


def test_what_is_no_normalisation_is_refused(trained: tuple[PPO, VecNormalize, Path], tmp_path: Path) -> None:
    place = trained[2]
    raw = (place / "vecnormalize.pkl").read_bytes()
    (tmp_path / "torn.pkl").write_bytes(raw[: len(raw) // 2])
    (tmp_path / "other.pkl").write_bytes(pickle.dumps({"obs_rms": np.zeros(3)}))
    (tmp_path / "only.pkl").write_bytes(pickle.dumps(VecNormalize(DummyVecEnv([POLE]), norm_obs=False)))
    evenroll.save_policy(evenroll.MLP([], np.ones((2, 4)), np.zeros(2)), tmp_path / "policy.safetensors")
    for name, why in (
        ("torn.pkl", "pickle"), ("other.pkl", "not a saved VecNormalize"), ("only.pkl", "does not normalise observations"),
        ("policy.safetensors", "no key evenroll.normalization"), ("none.pkl", "no such file"),
        ("x.npz", "export_normalization"),
    ):  # fmt: skip
        with pytest.raises(DataError, match=f"^{name}: .*{why}"):
            load_normalization(tmp_path / name)
    with pytest.raises(SpecError, match=r"of shape \(4,\).*Box"):
        load_environment("Pendulum-v1", None, load_normalization(place / "norm.safetensors"))
    with pytest.raises(DataError, match="do not fit together"):
        Normalization(np.zeros(3), -np.ones(3), 10.0, 1e-8)
    with pytest.raises(SpecError, match="no VecNormalize"):
        export_normalization(POLE(), tmp_path / "a.safetensors")
