"""Stable-Baselines3's zips: read as the model they are, never executed."""

from __future__ import annotations

import io
import json
import pickle
import subprocess
import sys
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3 import A2C, PPO

import evenroll
from evenroll.adapters import sb3_zip
from evenroll.adapters.model import as_model
from evenroll.adapters.sb3_zip import load_sb3
from evenroll.errors import PolicyError
from evenroll.evaluation.collector import Collector
from evenroll.files.inert_pickle import described
from evenroll.policies import MLP, External


class Switches(gym.Env):
    """Two switches to set; ends after three steps."""

    observation_space, action_space = gym.spaces.Box(-1, 1, (3,), np.float32), gym.spaces.MultiDiscrete([2, 3])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.np_random.uniform(-1, 1, 3).astype(np.float32), {}

    def step(self, action):
        self.t += 1
        return self.np_random.uniform(-1, 1, 3).astype(np.float32), float(sum(action)), self.t == 3, False, {}


MODELS = {
    "discrete": lambda: PPO("MlpPolicy", "CartPole-v1", n_steps=64, seed=1, device="cpu"),
    "relu": lambda: A2C(
        "MlpPolicy", "CartPole-v1", policy_kwargs={"net_arch": [32], "activation_fn": torch.nn.ReLU}, seed=1
    ),
    "box": lambda: A2C("MlpPolicy", "Pendulum-v1", policy_kwargs={"log_std_init": 0.3}, seed=1, device="cpu"),
    "multi-discrete": lambda: PPO("MlpPolicy", Switches(), n_steps=64, seed=1, device="cpu"),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_zip_is_read_as_the_model_it_is(tmp_path, name: str) -> None:
    """Models act through the same numbers, log π included, whether given as objects or read from their zip."""
    model = MODELS[name]()
    model.save(tmp_path / "model.zip")
    read = load_sb3(tmp_path / "model.zip")
    env = model.get_env().envs[0]
    spaces = {"observation_space": env.observation_space, "action_space": env.action_space}
    x = np.stack([env.observation_space.sample() for _ in range(50)]).clip(-3, 3)
    actions = []
    for policy in (model, read):
        collector = Collector(policy, lanes=50, **spaces)
        assert isinstance(collector.model.engine, External if name == "multi-discrete" else MLP)
        actions.append(collector.act(x))
        log_e = collector.stepper.log_e.copy()
    np.testing.assert_allclose(actions[0], actions[1], atol=1e-5)
    with torch.no_grad():
        drawn = torch.as_tensor(collector.stepper.actions, dtype=torch.float32)
        drawn = drawn[:, 0] if name in ("discrete", "relu") else drawn
        _, log_p, _ = model.policy.evaluate_actions(torch.as_tensor(x), drawn)
    np.testing.assert_allclose(log_e, log_p.numpy(), atol=1e-4)


class Bomb:
    def __reduce__(self):
        return (exec, ("raise SystemExit('executed')",))


def _rewritten(source, target, data=None, tensors=None) -> None:
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for item in old.namelist():
            content = old.read(item)
            if item == "data" and data is not None:
                content = json.dumps(data(json.loads(content))).encode()
            if item == "policy.pth" and tensors is not None:
                content = tensors
            new.writestr(item, content)


def test_nothing_in_a_zip_is_executed(tmp_path, ppo: PPO) -> None:
    """Pickles that would raise: in `data` they are not looked at, in place of the tensors they are refused."""
    import base64

    ppo.save(tmp_path / "good.zip")
    bomb = base64.b64encode(pickle.dumps(Bomb())).decode()

    def mined(data):
        for value in data.values():
            if isinstance(value, dict) and ":serialized:" in value:
                value[":serialized:"] = bomb
        return data

    _rewritten(tmp_path / "good.zip", tmp_path / "mined.zip", data=mined)
    assert isinstance(load_sb3(tmp_path / "mined.zip"), MLP)
    buffer = io.BytesIO()
    torch.save({"action_net.weight": Bomb()}, buffer)
    for content in (pickle.dumps(Bomb()), buffer.getvalue(), b"no tensors"):
        _rewritten(tmp_path / "good.zip", tmp_path / "bad.zip", tensors=content)
        with pytest.raises(PolicyError, match="cannot be read"):
            load_sb3(tmp_path / "bad.zip")


def test_what_would_need_code_is_refused(tmp_path, ppo: PPO) -> None:
    ppo.save(tmp_path / "good.zip")

    def change(key, value):
        return lambda data: {**data, key: value}

    own = {"__module__": "mine", "__init__": "<function Mine.__init__ at 0x0>"}
    own_activation = {"activation_fn": "<class 'torch.nn.modules.activation.PReLU'>"}
    cases = [
        ("policy_class", own, "load it in Python"),
        ("policy_kwargs", {"features_extractor_class": "x"}, "load it in Python"),
        ("policy_kwargs", own_activation, "PReLU"), ("use_sde", True, "use_sde"), ("observation_space", {}, "own encoding"),
    ]  # fmt: skip
    for key, value, text in cases:
        _rewritten(tmp_path / "good.zip", tmp_path / "other.zip", data=change(key, value))
        with pytest.raises(PolicyError, match=text):
            load_sb3(tmp_path / "other.zip")
    (tmp_path / "nothing.zip").write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(PolicyError, match="not a Stable-Baselines3 zip"):
        load_sb3(tmp_path / "nothing.zip")


def test_the_likeliest_actions_of_a_zip(tmp_path, ppo: PPO) -> None:
    """`--deterministic` works for a zip as it does for the model. Before, it was refused."""
    ppo.save(tmp_path / "model.zip")
    env = gym.make("CartPole-v1")
    results = [
        evenroll.evaluate(env, policy, episodes=5, deterministic=True) for policy in (ppo, load_sb3(tmp_path / "model.zip"))
    ]
    assert results[0].value == results[1].value
    assert results[1].policy == "deterministic MLP"


def test_the_critic_of_a_zip(tmp_path, ppo: PPO) -> None:
    """An MLP that was read from a zip brings the value network along."""
    ppo.save(tmp_path / "model.zip")
    read, x = load_sb3(tmp_path / "model.zip"), np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    with torch.no_grad():
        theirs = ppo.policy.predict_values(torch.as_tensor(x)).numpy()[:, 0]
    np.testing.assert_allclose(read.critic(x), theirs, rtol=1e-5)
    env = gym.make("CartPole-v1")
    for certain in (False, True):
        model = as_model(read, env.observation_space, env.action_space, deterministic=certain)
        np.testing.assert_allclose(model.critic(x), theirs, rtol=1e-5)


def test_as_many_members_as_are_allowed_are_read(tmp_path, ppo: PPO, monkeypatch) -> None:
    ppo.save(tmp_path / "a.zip")
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        monkeypatch.setattr(sb3_zip, "MOST_MEMBERS", len(archive.namelist()))
        sb3_zip._check_members(archive)
        monkeypatch.setattr(sb3_zip, "MOST_MEMBERS", len(archive.namelist()) - 1)
        with pytest.raises(PolicyError, match="too many members"):
            sb3_zip._check_members(archive)


def _saved(tensors: Any) -> bytes:
    file = io.BytesIO()
    torch.save(tensors, file)
    return file.getvalue()


def test_tensors_are_what_torch_reads() -> None:
    """Also those that share a storage, begin in the midst of it, or run through it in another order."""
    whole = torch.arange(12, dtype=torch.float32).reshape(3, 4) / 7
    tensors = {
        "whole": whole, "transposed": whole.T, "a row": whole[1], "a column": whole[:, 2], "a number": whole[2, 3],
        "doubles": torch.linspace(0.0, 1.0, 5, dtype=torch.float64), "longs": torch.tensor([3, -4]),
        "none": torch.zeros(0, 3), "repeated": torch.tensor([0.3]).expand(4),
    }  # fmt: skip
    for given in (tensors, OrderedDict(tensors)):
        found = sb3_zip._tensors(_saved(given))
        assert list(found) == list(tensors)
        for name, tensor in tensors.items():
            assert found[name].dtype == np.float64
            np.testing.assert_array_equal(found[name], tensor.double().numpy())


@pytest.mark.parametrize(
    "change",
    [{"sizes": (4, 4)}, {"offset": 1}, {"strides": (5, 1)}, {"sizes": (3, -4)}, {"sizes": (3,)}, {"strides": (-4, 1)}],
)
def test_tensors_do_not_reach_beyond_their_storage(change: dict[str, Any]) -> None:
    data = _saved({"whole": torch.zeros(3, 4)})
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        folder = archive.namelist()[0].partition("/")[0] + "/"
        call = described(archive.read(f"{folder}data.pkl"), outside=True)["whole"]
        storage, offset, sizes, strides, *rest = call.arguments
        assert sb3_zip._tensor(archive, folder, call, 12).shape == (3, 4)
        told = {"offset": offset, "sizes": sizes, "strides": strides} | change
        call.arguments = (storage, told["offset"], told["sizes"], told["strides"], *rest)
        with pytest.raises(ValueError, match=r"larger than its storage|more numbers|no number of bytes"):
            sb3_zip._tensor(archive, folder, call, 12)
        call.arguments = (storage, offset, sizes, strides, *rest)
        with pytest.raises(ValueError, match="more numbers than bytes"):
            sb3_zip._tensor(archive, folder, call, 11)


def test_a_plain_network_is_read_without_torch(tmp_path: Path) -> None:
    """Importing torch takes longer than all else that a short evaluation does."""
    path = tmp_path / "model.zip"
    PPO("MlpPolicy", "CartPole-v1", n_steps=8, batch_size=8, device="cpu").save(path)
    code = f"import sys, evenroll; print(type(evenroll.load_sb3({str(path)!r})).__name__, 'torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert run.stdout == "MLP False\n"
