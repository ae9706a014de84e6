"""Models of Stable-Baselines3: each is run as the library itself runs it, or said not to be."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3 import DDPG, DQN, PPO, SAC, TD3
from stable_baselines3.common.noise import NormalActionNoise

import evenroll
from evenroll.adapters.model import as_model
from evenroll.collection.environments import collect
from evenroll.errors import PolicyError
from evenroll.evaluation.collector import Collector
from tests.helpers import Walk

torch.set_num_threads(1)
SMALL: dict[str, Any] = {"buffer_size": 10, "device": "cpu", "seed": 0}
BOX = gym.spaces.Box(np.array([-1.0, 0.0], np.float32), np.array([3.0, 0.5], np.float32))


def collected(model: Any, env: gym.Env, episodes: int, sampler: str = "auto") -> Any:
    collector = Collector(model, sampler, observation_space=env.observation_space, action_space=env.action_space)
    for _ in collect(collector, env, episodes=episodes):
        pass
    return collector


# ---- ε-greedy ------------------------------------------------------------------------------------------------------


def test_exploration_counts() -> None:
    """The probabilities are 1 − ε + ε/n and ε/n. Before, the model was played greedily whatever its ε, without a word."""
    dqn = DQN("MlpPolicy", Walk(gym.spaces.Discrete(3)), **SMALL)
    dqn.exploration_rate = 0.3
    collector = collected(dqn, Walk(gym.spaces.Discrete(3)), 100)
    data = collector.rollouts()
    greedy = dqn.predict(data.observations.astype(np.float32), deterministic=True)[0]
    expected = np.where(data.actions[:, 0] == greedy, 0.7 + 0.1, 0.1)
    np.testing.assert_allclose(np.exp(data.log_e), expected, rtol=1e-6)
    assert 0.6 < (data.actions[:, 0] == greedy).mean() < 0.95
    result = collector.result()
    assert result.policy == "DQN, ε-greedy with ε = 0.3 through torch, 64 features"
    assert result.remark is None or "deterministic" not in result.remark


def test_without_exploration_it_is_greedy() -> None:
    dqn = DQN("MlpPolicy", Walk(gym.spaces.Discrete(3)), **SMALL)
    result = evenroll.evaluate(Walk(gym.spaces.Discrete(3)), dqn, episodes=5)
    assert (result.policy, result.sampler) == ("deterministic DQN", "os")
    assert "exploration_rate is 0" in result.remark
    dqn.exploration_rate = 0.3
    assert evenroll.evaluate(Walk(gym.spaces.Discrete(3)), dqn, episodes=5, deterministic=True).policy == "deterministic DQN"


# ---- squashed Gaussians --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sac() -> Any:
    return SAC("MlpPolicy", Walk(BOX), **SMALL)


def test_log_probabilities_and_actions_are_those_of_sac(sac: Any) -> None:
    """log π of the library is ours before the squash, minus the logarithm of tanh's slope; actions are the library's own."""
    env = Walk(BOX)
    collector = collected(sac, env, 20)
    data = collector.rollouts()
    collector.close()
    with torch.no_grad():
        mean, log_std, _ = sac.actor.get_action_dist_params(torch.as_tensor(data.observations, dtype=torch.float32))
        distribution = sac.actor.action_dist.proba_distribution(mean, log_std)
        drawn = torch.as_tensor(data.actions, dtype=torch.float32)
        theirs = distribution.log_prob(torch.tanh(drawn), drawn).numpy()
    jacobian = np.log(1 - np.tanh(data.actions) ** 2 + 1e-6).sum(axis=1)
    np.testing.assert_allclose(data.log_e - jacobian, theirs, atol=1e-4)
    played = np.array(env.seen)
    np.testing.assert_allclose(played, sac.policy.unscale_action(np.tanh(data.actions)), atol=1e-5)
    assert np.abs(data.log_b - data.log_e).max() > 1e-3
    assert collector.model.described == "SAC through torch, 256 features, squashed"


def test_the_likeliest_action_of_sac(sac: Any) -> None:
    model = as_model(sac, Walk(BOX).observation_space, BOX, deterministic=True)
    x = model.observations.probes()
    np.testing.assert_array_equal(model.decide(x), sac.predict(x, deterministic=True)[0])


# ---- without noise of their own ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [TD3, DDPG])
def test_models_that_draw_nothing(kind: Any) -> None:
    """No flag is needed. The noise of training is none of the policy's."""
    noise = NormalActionNoise(np.zeros(2), np.ones(2))
    model = kind("MlpPolicy", Walk(BOX), action_noise=noise, **SMALL)
    env = Walk(BOX)
    result = evenroll.evaluate(env, model, episodes=5)
    assert (result.policy, result.sampler) == (f"deterministic {kind.__name__}", "os")
    assert result.remark.startswith(f"{kind.__name__} draws nothing when it acts")
    assert len(env.seen) == 30


# ---- state-dependent noise -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [PPO, SAC])
def test_state_dependent_noise_is_played_as_it_is(kind: Any) -> None:
    """On-policy, with the reason. The noise of an episode is one function of the state, and each episode has its own."""
    options = {"n_steps": 64, "device": "cpu", "seed": 0} if kind is PPO else SMALL
    model = kind("MlpPolicy", Walk(BOX), use_sde=True, **options)
    result = evenroll.evaluate(Walk(BOX), model, episodes=5)
    assert (result.policy, result.sampler) == (f"{kind.__name__} with state-dependent noise", "os")
    assert "use_sde" in result.remark
    assert "deterministic" not in result.remark
    adapted = as_model(model, Walk(BOX).observation_space, BOX)
    x = np.tile(adapted.observations.probes(1), (2, 1))
    adapted.begin(0, 2)
    first, again = adapted.decide(x), adapted.decide(x)
    np.testing.assert_array_equal(first, again)
    assert (first[0] != first[1]).any()  # every lane has noise of its own
    adapted.begin(1, 2)
    other = adapted.decide(x)
    np.testing.assert_array_equal(other[0], first[0])
    assert (other[1] != first[1]).any()


# ---- fitting -------------------------------------------------------------------------------------------------------


def test_the_likeliest_actions_and_models_that_do_not_fit(ppo: PPO) -> None:
    result = evenroll.evaluate(gym.make("CartPole-v1"), ppo, episodes=5, deterministic=True)
    assert result.policy == "deterministic PPO, a compiled MLP"
    with pytest.raises(PolicyError, match="was made for"):
        evenroll.evaluate(gym.make("Acrobot-v1"), ppo, episodes=3)


@pytest.mark.parametrize("space", [gym.spaces.Discrete(3), BOX])
def test_the_compiled_copy_does_what_predict_does(space: gym.Space[Any]) -> None:
    env = Walk(space)
    model = PPO("MlpPolicy", env, n_steps=8, batch_size=8, device="cpu", seed=0, policy_kwargs={"log_std_init": 1.0})
    made = as_model(model, env.observation_space, space, deterministic=True)
    x = made.observations.probes()
    theirs = model.predict(x, deterministic=True)[0]
    np.testing.assert_allclose(made.decide(x), theirs, atol=1e-5)
    rows = made.observations.rows(x)
    made.check(rows, made.actions.from_env(theirs))
    with pytest.raises(PolicyError, match="disagrees"):
        made.check(rows, made.actions.from_env(theirs) + 1.0)


def test_a_predict_of_ones_own_is_asked(ppo: PPO) -> None:
    """A class may override `predict`. Then its network is not what it does."""

    class Other(PPO):
        def predict(self, *arguments: Any, **options: Any) -> Any:
            actions, state = super().predict(*arguments, **options)
            return 1 - actions, state

    other = Other("MlpPolicy", "CartPole-v1", n_steps=8, batch_size=8, device="cpu", seed=0)
    other.set_parameters(ppo.get_parameters())
    env = gym.make("CartPole-v1")
    made = as_model(other, env.observation_space, env.action_space, deterministic=True)
    x = made.observations.probes()
    np.testing.assert_array_equal(made.decide(x), 1 - ppo.predict(x, deterministic=True)[0])
    assert made.described == "deterministic Other"


def test_images_with_channels_last() -> None:
    """Stable-Baselines3 transposes them for its convolutions, and so the model takes the environment as it is."""
    env = Walk(gym.spaces.Discrete(3), shape=(36, 36, 3), dtype=np.uint8)
    model = PPO("CnnPolicy", env, n_steps=8, batch_size=8, device="cpu", seed=0)
    assert model.observation_space.shape == (3, 36, 36)
    collector = Collector(
        model, observation_space=env.observation_space, action_space=env.action_space, keep_observations=True
    )
    for _ in collect(collector, env, episodes=3):
        pass
    data = collector.rollouts()
    images = data.observations.reshape(-1, 36, 36, 3).astype(np.uint8).transpose(0, 3, 1, 2)
    with torch.no_grad():
        theirs = model.policy.get_distribution(torch.as_tensor(images.copy())).log_prob(torch.as_tensor(data.actions[:, 0]))
    np.testing.assert_allclose(data.log_e, theirs.numpy(), atol=1e-4)


# ---- sb3-contrib ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["TQC", "CrossQ"])
def test_squashed_models_of_sb3_contrib(name: str) -> None:
    """The likeliest action is the library's, and the Gaussian before the squash is its actor's."""
    kind = getattr(pytest.importorskip("sb3_contrib"), name)
    model, env = kind("MlpPolicy", Walk(BOX), **SMALL), Walk(BOX)
    data = collected(model, env, 10).rollouts()
    with torch.no_grad():
        mean, log_std, _ = model.policy.actor.get_action_dist_params(torch.as_tensor(data.observations).float())
        theirs = torch.distributions.Normal(mean, log_std.exp()).log_prob(torch.as_tensor(data.actions)).sum(dim=1)
    np.testing.assert_allclose(data.log_e, theirs.numpy(), atol=1e-4)
    np.testing.assert_allclose(np.array(env.seen), model.policy.unscale_action(np.tanh(data.actions)), atol=1e-5)
    likeliest = as_model(model, env.observation_space, BOX, deterministic=True)
    x = likeliest.observations.probes()
    np.testing.assert_array_equal(likeliest.decide(x), model.predict(x, deterministic=True)[0])


def test_quantiles_explore_too() -> None:
    contrib = pytest.importorskip("sb3_contrib")
    model, env = contrib.QRDQN("MlpPolicy", Walk(gym.spaces.Discrete(3)), **SMALL), Walk(gym.spaces.Discrete(3))
    model.exploration_rate = 0.3
    data = collected(model, env, 30).rollouts()
    greedy = model.predict(data.observations.astype(np.float32), deterministic=True)[0]
    np.testing.assert_allclose(np.exp(data.log_e), np.where(data.actions[:, 0] == greedy, 0.8, 0.1), rtol=1e-6)


def test_other_models_of_sb3_contrib() -> None:
    contrib = pytest.importorskip("sb3_contrib")
    ars = contrib.ARS("LinearPolicy", Walk(BOX), device="cpu", seed=0)
    result = evenroll.evaluate(Walk(BOX), ars, episodes=3)
    assert (result.policy, result.sampler) == ("deterministic ARS", "os")
    trpo = contrib.TRPO("MlpPolicy", Walk(gym.spaces.Discrete(3)), n_steps=16, batch_size=16, device="cpu", seed=0)
    assert evenroll.evaluate(Walk(gym.spaces.Discrete(3)), trpo, episodes=3).policy == "TRPO, a compiled MLP"


# ---- the value, against the library's own rollouts -----------------------------------------------------------------


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["SAC", "DQN"])
def test_the_value_is_that_of_the_librarys_own_rollouts(name: str, base_seed: int) -> None:
    """n episodes on-policy through evenroll, and as many played by `predict(deterministic=False)`, have the same mean.

    P(false) ≤ 1e-4 over both models: 4.3 standard errors of the difference of two independent means of n returns, which are
    nearly normal (sums of six actions). Catches greedy actions instead of ε = 0.5, which are 0.32 standard deviations of
    the returns off (n = 1,000), and clipped instead of squashed actions, which are 2.1 off (n = 200).
    """
    n = 200 if name == "SAC" else 1000
    space = BOX if name == "SAC" else gym.spaces.Discrete(3)
    model = SAC("MlpPolicy", Walk(space), **SMALL) if name == "SAC" else DQN("MlpPolicy", Walk(space), **SMALL)
    if name == "DQN":
        model.exploration_rate = 0.5
    ours = evenroll.Collector(
        model, "os", seed=base_seed, observation_space=Walk(space).observation_space, action_space=space
    )
    for _ in collect(ours, Walk(space), episodes=n):
        pass
    np.random.seed(base_seed % 2**31), torch.manual_seed(base_seed)
    space.seed(base_seed % 2**31)
    model.action_space.seed(base_seed % 2**31)
    theirs, env = [], Walk(space)
    for i in range(n):
        x, _ = env.reset(seed=base_seed % 2**31 + i)
        total, over = 0.0, False
        while not over:
            x, reward, over, _, _ = env.step(model.predict(x, deterministic=False)[0])
            total += reward
        theirs.append(total)
    a, b = ours.rollouts().returns, np.array(theirs)
    assert abs(a.mean() - b.mean()) < 4.3 * np.sqrt(a.var() / n + b.var() / n)


# ---- critics -------------------------------------------------------------------------------------------------------


def test_the_models_own_critic(ppo: PPO, sac: Any) -> None:
    """`Model.critic` is V(s) of the library, also for the likeliest actions; an actor that has no V has none."""
    env = gym.make("CartPole-v1")
    for most_likely in (False, True):
        model = as_model(ppo, env.observation_space, env.action_space, deterministic=most_likely)
        x = model.observations.probes(7)
        with torch.no_grad():
            theirs = ppo.policy.predict_values(torch.as_tensor(x)).numpy()[:, 0]
        assert model.critic(x).shape == (7,)
        np.testing.assert_allclose(model.critic(x), theirs, rtol=1e-6)
        model.close()
    assert as_model(sac, Walk(BOX).observation_space, BOX).critic is None
