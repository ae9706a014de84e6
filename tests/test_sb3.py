"""Stable-Baselines3: its models, its zips (read, never executed), its vector environments, its evaluate_policy."""

from __future__ import annotations

import io
import json
import pickle
import zipfile

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3 import A2C, DQN, PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy as theirs
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack, VecNormalize

import evenroll
from evenroll.adapters.sb3_zip import load_sb3
from evenroll.errors import PolicyError
from evenroll.evaluation.collector import Collector
from evenroll.policies import MLP, External
from evenroll.sb3.callbacks import EvalCallback

torch.set_num_threads(1)


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


@pytest.fixture(scope="module")
def ppo() -> PPO:
    return PPO("MlpPolicy", "CartPole-v1", n_steps=256, n_epochs=2, seed=0, device="cpu").learn(256)


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
    elu = {"activation_fn": "<class 'torch.nn.modules.activation.ELU'>"}
    cases = [
        ("policy_class", own, "load it in Python"),
        ("policy_kwargs", {"features_extractor_class": "x"}, "load it in Python"),
        ("policy_kwargs", elu, "ELU"), ("use_sde", True, "use_sde"), ("observation_space", {}, "own encoding"),
    ]  # fmt: skip
    for key, value, text in cases:
        _rewritten(tmp_path / "good.zip", tmp_path / "other.zip", data=change(key, value))
        with pytest.raises(PolicyError, match=text):
            load_sb3(tmp_path / "other.zip")
    (tmp_path / "nothing.zip").write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(PolicyError, match="not a Stable-Baselines3 zip"):
        load_sb3(tmp_path / "nothing.zip")
    DQN("MlpPolicy", "CartPole-v1", buffer_size=10, device="cpu").save(tmp_path / "dqn.zip")
    with pytest.raises(PolicyError, match="load it in Python"):
        load_sb3(tmp_path / "dqn.zip")


def test_wrappers_of_vector_environments_are_respected(ppo: PPO) -> None:
    """Frame stacking: the policy sees what the wrapper gives. VecNormalize: likewise, and its settings are questioned."""
    stacked = VecFrameStack(make_vec_env("CartPole-v1", n_envs=2), 3)
    model = PPO("MlpPolicy", stacked, n_steps=32, device="cpu", seed=0)
    assert evenroll.evaluate(stacked, model, episodes=6).episodes == 6
    normal = VecNormalize(make_vec_env("CartPole-v1", n_envs=2), norm_reward=False)
    with pytest.warns(UserWarning, match="still learns"):
        evenroll.evaluate(normal, ppo, episodes=3)
    normal.training, mean = False, normal.obs_rms.mean.copy()
    result = evenroll.evaluate(normal, ppo, episodes=7, gamma=0.99)
    assert result.episodes == 7
    assert (result.truncated, result.unfinished) == (0, 0)
    np.testing.assert_array_equal(normal.obs_rms.mean, mean)


def test_models_that_cannot_be_balanced(ppo: PPO) -> None:
    env = gym.make("CartPole-v1")
    result = evenroll.evaluate(env, ppo, episodes=5, deterministic=True)
    assert result.policy == "deterministic PPO"
    dqn = DQN("MlpPolicy", "CartPole-v1", buffer_size=10, device="cpu")
    assert "no action noise" in evenroll.evaluate(env, dqn, episodes=3).remark
    with pytest.raises(PolicyError, match="was made for"):
        evenroll.evaluate(gym.make("Acrobot-v1"), ppo, episodes=3)
    sde = PPO("MlpPolicy", "Pendulum-v1", use_sde=True, n_steps=64, device="cpu")
    with pytest.raises(PolicyError, match="use_sde"):
        evenroll.evaluate(gym.make("Pendulum-v1"), sde, episodes=3)


# ---- evaluate_policy: the scenarios of Stable-Baselines3's own tests ---------------------------------------------------


def test_deterministic_evaluation_is_theirs(ppo: PPO) -> None:
    def env():
        made = Monitor(gym.make("CartPole-v1"))
        made.reset(seed=3)
        return made

    def run(function, **options):
        vec = DummyVecEnv([env, env])
        vec.seed(5)
        return function(ppo, vec, n_eval_episodes=5, **options)

    assert run(evenroll.evaluate_policy) == pytest.approx(run(theirs))
    assert run(evenroll.evaluate_policy, return_episode_rewards=True) == run(theirs, return_episode_rewards=True)


def test_callback_is_called_after_each_step_of_each_environment(ppo: PPO) -> None:
    calls = []

    def callback(locals_, globals_):
        calls.append((locals_["i"], float(locals_["reward"]), bool(locals_["done"]), set(locals_["info"])))

    vec = make_vec_env("CartPole-v1", n_envs=2)
    rewards, lengths = evenroll.evaluate_policy(
        ppo, vec, 4, deterministic=False, callback=callback, return_episode_rewards=True
    )
    assert len(rewards) == len(lengths) == 4
    assert len(calls) == sum(lengths)
    assert sum(done for _, _, done, _ in calls) == 4
    assert {i for i, *_ in calls} == {0, 1}
    np.testing.assert_allclose(rewards, lengths, atol=1e-5)


def test_threshold_and_warning(ppo: PPO) -> None:
    with pytest.warns(UserWarning, match="no Monitor"):
        mean, std = evenroll.evaluate_policy(ppo, gym.make("CartPole-v1"), 3, deterministic=False)
    assert mean > 5
    assert std >= 0
    with pytest.raises(AssertionError, match="below threshold"):
        evenroll.evaluate_policy(ppo, Monitor(gym.make("CartPole-v1")), 3, reward_threshold=1e6)


class Lives(gym.Wrapper):
    """Says "done" every ten steps although the episode goes on underneath, as Atari wrappers do for lost lives."""

    def reset(self, **kwargs):
        self.lost = 0
        return (self.observation, {}) if getattr(self, "going", False) else super().reset(**kwargs)

    def step(self, action):
        self.observation, reward, terminated, truncated, info = super().step(action)
        self.lost += 1
        self.going = not (terminated or truncated)
        return self.observation, reward, terminated or self.lost == 10, truncated, info


def test_an_episode_ends_where_monitor_says(ppo: PPO) -> None:
    for deterministic in (True, False):
        vec = DummyVecEnv([lambda: Lives(Monitor(gym.make("CartPole-v1")))])
        _, lengths = evenroll.evaluate_policy(ppo, vec, 5, deterministic, return_episode_rewards=True)
        assert max(lengths) > 10


def test_each_environment_has_its_share(ppo: PPO) -> None:
    """Short episodes are not favoured: of 2 envs, one three times as short, each gives half."""
    vec = DummyVecEnv([lambda: gym.wrappers.TimeLimit(gym.make("Pendulum-v1"), 20), lambda: gym.make("Pendulum-v1")])
    model = A2C("MlpPolicy", "Pendulum-v1", device="cpu", seed=0)
    _, lengths = evenroll.evaluate_policy(model, vec, 6, deterministic=False, return_episode_rewards=True, warn=False)
    assert sorted(lengths) == [20, 20, 20, 200, 200, 200]


def test_evaluation_during_training_leaves_no_trace() -> None:
    """The callback sees a policy that changes, and training goes on as if it had not looked."""
    trained = []
    for callback in (None, EvalCallback(gym.make("CartPole-v1"), every=256, episodes=10)):
        model = PPO("MlpPolicy", "CartPole-v1", n_steps=128, n_epochs=1, seed=0, device="cpu").learn(512, callback=callback)
        trained.append([p.detach().clone() for p in model.policy.parameters()])
    assert [steps for steps, _ in callback.results] == [256, 512]
    assert callback.results[0][1].value != callback.results[1][1].value
    assert all(torch.equal(a, b) for a, b in zip(*trained, strict=True))
    assert not any(part._forward_pre_hooks or part._forward_hooks for part in model.policy.modules())


def test_a_zip_by_its_name(tmp_path, ppo: PPO) -> None:
    ppo.save(tmp_path / "model.zip")
    env = gym.make("CartPole-v1")
    assert (
        evenroll.evaluate(env, str(tmp_path / "model.zip"), episodes=5).value
        == evenroll.evaluate(env, ppo, episodes=5).value
    )
