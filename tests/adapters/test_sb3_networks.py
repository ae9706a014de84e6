"""Zips of every algorithm: read without executing anything, they are the models that the library itself loads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3 import A2C, DDPG, DQN, PPO, SAC, TD3

import evenroll
from evenroll.adapters.model import as_model
from evenroll.adapters.sb3_saved import SavedModel
from evenroll.adapters.sb3_zip import load_sb3
from evenroll.errors import PolicyError, SpecError
from tests.adapters.test_masks import Doors
from tests.files.corpus.saved_models import model_zip
from tests.helpers import Walk

contrib = pytest.importorskip("sb3_contrib")
torch.set_num_threads(1)
BOX = gym.spaces.Box(np.array([-1.0, 0.0], np.float32), np.array([3.0, 0.5], np.float32))
DISCRETE = gym.spaces.Discrete(3)
ON: dict[str, Any] = {"n_steps": 16, "batch_size": 16, "device": "cpu", "seed": 0}
LSTM = {"lstm_hidden_size": 8, "n_lstm_layers": 2, "net_arch": [8]}
SEES = (36, 36, 3)


def off(**more: Any) -> dict[str, Any]:
    """Options of an algorithm that learns off-policy. A model changes what it is given, so each gets its own."""
    return {"buffer_size": 10, "device": "cpu", "seed": 0, "policy_kwargs": {"net_arch": [16, 16]}} | more


class Parts(Walk):
    """Observations of several parts, an image among them."""

    def __init__(self, image: bool = True) -> None:
        super().__init__(DISCRETE)
        parts: dict[str, gym.Space] = {"b": gym.spaces.Box(-1, 1, (2, 2)), "ac": gym.spaces.Discrete(4)}
        if image:
            parts["eye"] = gym.spaces.Box(0, 255, SEES, np.uint8)
        self.observation_space = gym.spaces.Dict(parts)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if seed is not None:  # without one it goes on; `seed(None)` would begin somewhere else every time
            self.observation_space.seed(seed)
        return super().reset(seed=seed)

    def _look(self) -> Any:
        return self.observation_space.sample()


class Numbered(Parts):
    """Observations that are whole numbers."""

    def __init__(self, space: gym.Space) -> None:
        super().__init__()
        self.observation_space = space


def images(actions: gym.Space) -> Walk:
    return Walk(actions, shape=SEES, dtype=np.uint8)


MODELS: dict[str, Callable[[], Any]] = {
    "PPO, ELU": lambda: PPO("MlpPolicy", Walk(BOX), policy_kwargs={"activation_fn": torch.nn.ELU}, **ON),
    "PPO, several actions": lambda: PPO("MlpPolicy", Walk(gym.spaces.MultiDiscrete([2, 3])), **ON),
    "PPO, images": lambda: PPO("CnnPolicy", images(DISCRETE), **ON),
    "PPO, images of two extractors": lambda: PPO(
        "CnnPolicy", images(BOX), policy_kwargs={"share_features_extractor": False, "normalize_images": True}, **ON
    ),
    "PPO, parts": lambda: PPO("MultiInputPolicy", Parts(), **ON),
    "A2C, flags": lambda: A2C("MlpPolicy", Walk(gym.spaces.MultiBinary(3)), device="cpu", seed=0),
    "A2C, numbered states": lambda: A2C("MlpPolicy", Numbered(gym.spaces.Discrete(5)), device="cpu", seed=0),
    "A2C, several numbers": lambda: A2C(
        "MlpPolicy", Numbered(gym.spaces.MultiDiscrete([2, 4])), policy_kwargs={"net_arch": []}, device="cpu", seed=0
    ),
    "TRPO": lambda: contrib.TRPO("MlpPolicy", Walk(BOX), **ON),
    "SAC": lambda: SAC("MlpPolicy", Walk(BOX), **off()),
    "SAC, parts": lambda: SAC("MultiInputPolicy", _with_real_actions(Parts(False)), **off()),
    "TQC, images": lambda: contrib.TQC("CnnPolicy", images(BOX), **off()),
    "CrossQ": lambda: contrib.CrossQ("MlpPolicy", Walk(BOX), **off()),
    "DQN": lambda: DQN("MlpPolicy", Walk(DISCRETE), **off()),
    "DQN, images": lambda: DQN("CnnPolicy", images(DISCRETE), **off()),
    "QRDQN": lambda: contrib.QRDQN("MlpPolicy", Walk(DISCRETE), **off(policy_kwargs={"n_quantiles": 7})),
    "TD3": lambda: TD3("MlpPolicy", Walk(BOX), **off()),
    "DDPG": lambda: DDPG("MlpPolicy", Walk(BOX), **off()),
    "ARS": lambda: contrib.ARS("MlpPolicy", Walk(BOX), device="cpu", seed=0),
    "ARS, linear": lambda: contrib.ARS("LinearPolicy", Walk(BOX), device="cpu", seed=0),
    "ARS, discrete": lambda: contrib.ARS("MlpPolicy", Walk(DISCRETE), device="cpu", seed=0),
    "MaskablePPO": lambda: contrib.MaskablePPO("MlpPolicy", Doors(), **ON),
    "RecurrentPPO": lambda: contrib.RecurrentPPO("MlpLstmPolicy", Walk(BOX), policy_kwargs=LSTM, **ON),
    "RecurrentPPO, images": lambda: contrib.RecurrentPPO("CnnLstmPolicy", images(DISCRETE), policy_kwargs=LSTM, **ON),
}


def _with_real_actions(env: Walk) -> Walk:
    env.action_space = BOX
    return env


@pytest.fixture(params=MODELS)
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Any, Any, Any, gym.Env]:
    """(name, model, what its zip holds, environment). All parameters and statistics are moved away from where they began."""
    torch.manual_seed(0)
    model = MODELS[request.param]()
    with torch.no_grad():
        for name, x in model.policy.state_dict().items():
            if x.is_floating_point():
                x.add_(torch.rand_like(x) if name.endswith("ra_var") else 0.1 * torch.randn_like(x))
    if hasattr(model, "exploration_rate"):
        model.exploration_rate = 0.2
    model.save(tmp_path / "model.zip")
    env: Any = model.get_env()
    return request.param, model, load_sb3(tmp_path / "model.zip"), env.envs[0].unwrapped


def test_a_zip_says_what_its_model_says(pair: tuple[Any, Any, Any, gym.Env]) -> None:
    """Outputs, likeliest actions, values of the critic: those of the model, to 1e-5."""
    name, model, read, env = pair
    spaces = env.observation_space, env.action_space
    theirs, ours = as_model(model, *spaces), as_model(read, *spaces)
    x = theirs.observations.probes(8)
    assert (ours.engine is None) == (theirs.engine is None) == name.startswith(("TD3", "DDPG", "ARS"))
    assert ours.masked == theirs.masked
    if theirs.engine is not None:
        outputs = [m.engine.parameters_of_actions(m.encode(x)) for m in (ours, theirs)]
        np.testing.assert_allclose(outputs[0], outputs[1], atol=1e-5, rtol=1e-5)
        assert np.ptp(outputs[0], axis=0).max() > 1e-3
    assert (ours.critic is None) == (theirs.critic is None)
    if theirs.critic is not None:
        np.testing.assert_allclose(ours.critic(x), theirs.critic(x), atol=1e-5, rtol=1e-5)
    ours.close()
    theirs.close()
    certain = [as_model(policy, *spaces, deterministic=True) for policy in (read, model)]
    np.testing.assert_allclose(certain[0].decide(x), certain[1].decide(x), atol=1e-5)


def test_a_zip_is_evaluated_as_its_model_is(pair: tuple[Any, Any, Any, gym.Env]) -> None:
    """The same seed gives the same episodes, up to rounding, and the same reason where nothing was balanced."""
    _, model, read, env = pair
    results = [evenroll.evaluate(env, policy, episodes=4, seed=1) for policy in (read, model)]
    assert results[0].value == pytest.approx(results[1].value, rel=1e-3, abs=1e-3)
    assert results[0].sampler == results[1].sampler
    assert (results[0].remark is None) == (results[1].remark is None)


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    """Other spaces, other bounds of squashed actions, and what needs code: with the line that loads it in Python."""
    sac = SAC("MlpPolicy", Walk(BOX), **off())
    sac.save(tmp_path / "sac.zip")
    read = load_sb3(tmp_path / "sac.zip")
    assert isinstance(read, SavedModel)
    wider = gym.spaces.Box(BOX.low, 2 * BOX.high)
    for env, text in (
        (Walk(wider), "made for actions whose high is"),
        (Walk(DISCRETE), "made for actions Box"),
        (Walk(BOX, shape=(4,)), "made for observations Box"),
    ):
        with pytest.raises(PolicyError, match=text):
            evenroll.evaluate(env, read, episodes=2)
    SAC("MlpPolicy", Walk(BOX), use_sde=True, **off()).save(tmp_path / "sde.zip")
    with pytest.raises(PolicyError, match=r"use_sde.*stable_baselines3\.SAC\.load\(path\)"):
        load_sb3(tmp_path / "sde.zip")
    DQN("MlpPolicy", Walk(DISCRETE), **off(policy_kwargs={"features_extractor_class": Mine})).save(tmp_path / "mine.zip")
    with pytest.raises(PolicyError, match=r"Mine, which needs code.*stable_baselines3\.DQN\.load\(path\)"):
        load_sb3(tmp_path / "mine.zip")


def test_a_built_in_domain_names_its_environment(tmp_path: Path) -> None:
    """A network that runs through torch is not what a domain is compiled for. Before, its sizes were said not to fit."""
    (tmp_path / "model.zip").write_bytes(model_zip("greedy"))
    with pytest.raises(SpecError, match=r"runs through torch, and cartpole is compiled for .* evenroll/CartPole-v0"):
        evenroll.evaluate("cartpole", tmp_path / "model.zip", episodes=3)
    assert evenroll.evaluate("evenroll/CartPole-v0", tmp_path / "model.zip", episodes=3).episodes == 3


class Mine(torch.nn.Module):
    """A features extractor that only its author has."""

    def __init__(self, observation_space: gym.Space) -> None:
        super().__init__()
        self.features_dim, self.layer = 4, torch.nn.Linear(3, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)
