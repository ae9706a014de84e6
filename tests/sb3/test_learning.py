"""BalancedPPO and BalancedA2C: Stable-Baselines3's own classes, but for how an action is drawn."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

import evenroll
from evenroll.errors import PolicyFault, SpecError
from evenroll.samplers.auto_state import Memory
from evenroll.sb3 import BalancedA2C, BalancedPPO
from tests.helpers import Walk

torch.set_num_threads(1)  # small networks: threads only wait for each other
SPACES = {
    "discrete": gym.spaces.Discrete(3),
    "multi-discrete": gym.spaces.MultiDiscrete([2, 3]),
    "flags": gym.spaces.MultiBinary(2),
    "box": gym.spaces.Box(np.float32([-1, 0]), np.float32([3, 0.5])),
}
SMALL: dict[str, Any] = {"n_steps": 32, "seed": 0, "device": "cpu"}
PPO_TOO: dict[str, Any] = SMALL | {"batch_size": 32, "n_epochs": 2}


def walks(space: str, n: int = 2) -> DummyVecEnv:
    return DummyVecEnv([functools.partial(Walk, SPACES[space]) for _ in range(n)])


def weights(model: Any) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in model.policy.parameters()])


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize(("ours", "theirs", "options"), [(BalancedPPO, PPO, PPO_TOO), (BalancedA2C, A2C, SMALL)])
def test_on_policy_sampling_is_stable_baselines3_bit_for_bit(ours: Any, theirs: Any, options: dict, space: str) -> None:
    a = ours("MlpPolicy", walks(space), sampler="os", **options).learn(256)
    b = theirs("MlpPolicy", walks(space), **options).learn(256)
    assert torch.equal(weights(a), weights(b))
    np.testing.assert_array_equal(a.rollout_buffer.actions, b.rollout_buffer.actions)


def test_on_policy_sampling_takes_state_dependent_noise_and_balanced_sampling_refuses_it() -> None:
    options = PPO_TOO | {"use_sde": True}
    a = BalancedPPO("MlpPolicy", walks("box"), sampler="os", **options).learn(128)
    assert torch.equal(weights(a), weights(PPO("MlpPolicy", walks("box"), **options).learn(128)))
    with pytest.raises(SpecError, match="use_sde the noise stays the same"):
        BalancedPPO("MlpPolicy", walks("box"), **options)


@pytest.mark.parametrize("carry_over", [0, 1])
@pytest.mark.parametrize("kind", [BalancedPPO, BalancedA2C])
def test_a_seed_gives_the_same_run_twice(kind: Any, carry_over: int) -> None:
    options = SMALL if kind is BalancedA2C else PPO_TOO
    runs = [kind("MlpPolicy", walks("box"), carry_over=carry_over, **(options | {"seed": s})).learn(256) for s in (0, 0, 1)]
    assert torch.equal(weights(runs[0]), weights(runs[1]))
    assert not torch.equal(weights(runs[0]), weights(runs[2]))
    other = kind("MlpPolicy", walks("box"), sampler="os", carry_over=carry_over, **options).learn(256)
    assert not torch.equal(weights(runs[0]), weights(other))


@pytest.mark.parametrize("space", SPACES)
def test_values_and_log_probabilities_are_those_of_the_policy(space: str) -> None:
    """Of the present policy, at the actions that were taken, whatever the kind of action; also in a VecNormalize."""
    env = VecNormalize(walks(space, 3))
    model = BalancedPPO("MlpPolicy", env, **PPO_TOO)
    buffer, before = model.rollout_buffer, {}

    class AtTheEnd(BaseCallback):
        def _on_step(self) -> bool:
            return True

        def _on_rollout_end(self) -> None:
            actions = torch.as_tensor(buffer.actions.reshape(96, -1).astype(np.float32))
            actions = actions.long().flatten() if space == "discrete" else actions
            values, log_probs, _ = model.policy.evaluate_actions(
                torch.as_tensor(buffer.observations.reshape(96, -1)), actions
            )
            before["values"], before["log_probs"] = values, log_probs
            np.testing.assert_allclose(buffer.values.ravel(), values.detach().numpy().ravel(), rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(buffer.log_probs.ravel(), log_probs.detach().numpy(), rtol=1e-4, atol=1e-5)

    model.learn(3 * 96, callback=AtTheEnd())
    assert before
    assert len(np.unique(buffer.actions.reshape(-1, buffer.actions.shape[-1]), axis=0)) > 3 - (space == "discrete")


def test_all_environments_share_one_balance_which_begins_anew_with_every_rollout() -> None:
    model = BalancedPPO("MlpPolicy", walks("discrete", 3), **PPO_TOO).learn(3 * 96)
    assert Memory(model._draws.lanes.balance.memory).k == 96
    assert model._draws.lanes.balance.clock.episodes == 3 * 5  # of 6 steps each; the last ones are not over
    kept = BalancedPPO("MlpPolicy", walks("discrete", 3), carry_over=1, **PPO_TOO).learn(3 * 96)
    assert Memory(kept._draws.lanes.balance.memory).k == 2 * 96


def imbalance(model: Any) -> float:
    """SᵀK⁻¹S / D of a rollout with two actions: 1 on average on-policy."""
    buffer, policy = model.rollout_buffer, model.policy
    n = buffer.buffer_size * buffer.n_envs
    with torch.no_grad():
        seen = torch.as_tensor(buffer.observations.reshape(n, -1))
        psi = policy.mlp_extractor.forward_actor(seen)
        p = torch.softmax(policy.action_net(psi), dim=1)[:, 1].double().numpy()
    psi = np.append(psi.double().numpy(), np.ones((n, 1)), axis=1)
    x = buffer.actions.ravel() - p
    S, K = psi.T @ x, (psi * (p * (1 - p))[:, None]).T @ psi
    return float(S @ np.linalg.pinv(K, rcond=1e-10) @ S) / np.linalg.matrix_rank(K, 1e-10 * np.linalg.norm(K, 2))


@pytest.mark.statistical
@pytest.mark.parametrize("envs", [1, 4])
def test_rollouts_are_balanced(base_seed: int, envs: int) -> None:
    """The imbalance of the present policy's own features is small in the second rollout, too.

    On-policy it is χ²/17 with 17 degrees of freedom, balanced about 0.05 times that. P(false) ≤ 1e-6: it would have to be
    eight times its mean. Catches draws that are not balanced, or balanced for the weights of the rollout before, in 98 of
    100 cases: on-policy P(imbalance < 0.4) = 0.014.
    """
    env = DummyVecEnv([functools.partial(Walk, gym.spaces.Discrete(2), 20) for _ in range(envs)])
    small = {"net_arch": [16], "ortho_init": False}
    model = BalancedPPO(
        "MlpPolicy", env, n_steps=2048 // envs, n_epochs=1, learning_rate=1e-2, policy_kwargs=small, device="cpu",
        seed=base_seed % 2**31,
    )  # fmt: skip

    found: list[float] = []

    class AtTheEnd(BaseCallback):
        def _on_step(self) -> bool:
            return True

        def _on_rollout_end(self) -> None:
            found.append(imbalance(model))

    model.learn(2 * 2048, callback=AtTheEnd())
    assert len(found) == 2
    assert max(found) < 0.4


class Asking(BaseCallback):
    """Asks the model for actions in the midst of a rollout, as evaluation during training does."""

    def _on_step(self) -> bool:
        self.model.predict(np.zeros((5, 3), np.float32), deterministic=False)
        self.model.predict(np.zeros((2, 3), np.float32), deterministic=False)
        return True


def test_questions_in_the_midst_of_a_rollout_do_not_count() -> None:
    asked = BalancedPPO("MlpPolicy", walks("discrete"), **PPO_TOO).learn(256, callback=Asking())
    assert torch.equal(weights(asked), weights(BalancedPPO("MlpPolicy", walks("discrete"), **PPO_TOO).learn(256)))


class Leaving(BaseCallback):
    def _on_step(self) -> bool:
        return self.n_calls < 5


def test_a_rollout_that_is_broken_off_leaves_the_policy_as_it_was() -> None:
    model = BalancedPPO("MlpPolicy", walks("discrete"), **PPO_TOO).learn(256, callback=Leaving())
    assert model.num_timesteps == 10
    assert "forward" not in vars(model.policy)
    assert "sample" not in vars(model.policy.action_dist)
    assert not any(part._forward_pre_hooks or part._forward_hooks for part in model.policy.modules())


@pytest.mark.parametrize("kind", [BalancedPPO, BalancedA2C])
def test_a_saved_model_goes_on(kind: Any, tmp_path: Path) -> None:
    """With its sampler and its carry-over; Stable-Baselines3 and evenroll read the file as well."""
    model = kind("MlpPolicy", walks("discrete"), sampler="auto:max_kl=0.5", carry_over=1, **SMALL).learn(256)
    model.save(tmp_path / "model.zip")
    loaded = kind.load(tmp_path / "model.zip", env=walks("discrete"), device="cpu")
    assert (loaded.sampler, loaded.carry_over, loaded.num_timesteps) == ("auto:max_kl=0.5", 1, 256)
    assert torch.equal(weights(loaded), weights(model))
    fresh = kind("MlpPolicy", walks("discrete"), **SMALL)
    assert (loaded._draws.lanes.state()["rng"] != fresh._draws.lanes.state()["rng"]).any()  # the luck is not met twice
    loaded.learn(128, reset_num_timesteps=False)
    assert loaded.num_timesteps == 384
    assert not torch.equal(weights(loaded), weights(model))
    theirs = (PPO if kind is BalancedPPO else A2C).load(tmp_path / "model.zip", device="cpu")
    assert torch.equal(weights(theirs), weights(model))
    assert evenroll.evaluate(Walk(SPACES["discrete"]), tmp_path / "model.zip", episodes=8).episodes == 8


class Stubborn(ActorCriticPolicy):
    """A policy that does not ask its distribution for an action."""

    def forward(self, obs: Any, deterministic: bool = False) -> Any:
        likeliest = self.get_distribution(obs).mode()
        return likeliest, self.predict_values(obs), self.get_distribution(obs).log_prob(likeliest)


def test_what_cannot_be_balanced_is_refused() -> None:
    with pytest.raises(SpecError, match="unknown sampler"):
        BalancedPPO("MlpPolicy", walks("discrete"), sampler="automatic", **PPO_TOO)
    with pytest.raises(SpecError, match="carry_over must be"):
        BalancedPPO("MlpPolicy", walks("discrete"), carry_over=-1, **PPO_TOO)
    with pytest.raises(SpecError, match="bpg"):
        BalancedPPO("MlpPolicy", walks("discrete"), sampler="bpg:batch=8,step_size=0.1", **PPO_TOO)
    with pytest.raises(SpecError, match="draws its actions by itself"):
        BalancedPPO(Stubborn, walks("discrete"), **PPO_TOO).learn(64)


def test_a_policy_that_is_not_finite_is_told() -> None:
    model = BalancedPPO("MlpPolicy", walks("box"), **PPO_TOO)
    with torch.no_grad():
        model.policy.action_net.bias[0] = 1e38
        model.policy.action_net.weight[0] = 1e38
    with pytest.raises(PolicyFault, match="not finite"):
        model.learn(64)
