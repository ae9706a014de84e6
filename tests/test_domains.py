"""Domains: dynamics against Gymnasium's own physics and against tables; exact values against simulation."""

from __future__ import annotations

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from evenroll.collection.trial import Driver
from evenroll.domains.catalogue import DOMAINS, get_domain
from evenroll.domains.domain import provenance
from evenroll.errors import PolicyError, SpecError
from evenroll.policies import TabularSoftmax, epsilon_greedy, policy_digest
from evenroll.samplers import OnPolicy


@pytest.mark.parametrize("name", [listing.gymnasium_id for listing in DOMAINS.values()])
def test_gymnasium_checker_accepts_the_environment(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # unbounded spaces are what the domains have
        check_env(gymnasium.make(name).unwrapped, skip_render_check=True)


def test_registered_horizons_are_the_domains() -> None:
    for name, listing in DOMAINS.items():
        domain = get_domain(name)
        assert domain.gymnasium_id == listing.gymnasium_id
        assert domain.horizon == listing.horizon == gymnasium.spec(domain.gymnasium_id).max_episode_steps


def cartpole_states(rng: np.random.Generator, n: int = 2000) -> np.ndarray:
    return rng.uniform(-1, 1, (n, 4)) * np.array([2.5, 3.0, 0.22, 3.0])


def test_cartpole_physics_is_gymnasiums_step_by_step() -> None:
    rng = np.random.default_rng(0)
    reference = gymnasium.make("CartPole-v1").unwrapped
    ours = gymnasium.make("evenroll/CartPole-v0").unwrapped
    reference.reset(seed=0)
    ours.reset(seed=0)
    for state in cartpole_states(rng):
        action = int(rng.integers(2))
        reference.state = tuple(state)
        reference.steps_beyond_terminated = None
        ours._state[:] = state
        _, reward, terminated, _, _ = reference.step(action)
        obs, our_reward, our_terminated, _, _ = ours.step(action)
        np.testing.assert_allclose(obs, reference.state, rtol=1e-14, atol=1e-15)
        assert (our_reward, our_terminated) == (reward, terminated)


def test_three_actions_push_left_not_at_all_and_right() -> None:
    np.testing.assert_array_equal(get_domain("cartpole:actions=3").environment(None).params, [-10, 0, 10])


def test_continuous_cartpole_is_cartpole_with_force_30_a_not_clipped() -> None:
    rng = np.random.default_rng(1)
    reference = gymnasium.make("CartPole-v1").unwrapped
    ours = gymnasium.make("evenroll/CartPoleContinuous-v0").unwrapped
    reference.reset(seed=0)
    ours.reset(seed=0)
    for state in cartpole_states(rng, 1000):
        action = rng.normal() * 1.5
        reference.state = tuple(state)
        reference.steps_beyond_terminated = None
        reference.force_mag = 30.0 * action  # Gymnasium pushes by ±force_mag
        ours._state[:] = state
        _, _, terminated, _, _ = reference.step(1)
        obs, _, our_terminated, _, _ = ours.step(np.array([action]))
        np.testing.assert_allclose(obs, reference.state, rtol=1e-13, atol=1e-14)
        assert our_terminated == terminated


def test_gridworld_rewards_belong_to_the_cell_entered_and_walls_cost_one() -> None:
    env = gymnasium.make("evenroll/GridWorld-v0").unwrapped
    up, down, left, right = range(4)

    def enter(cell: int, action: int) -> tuple[int, float, bool]:
        env.reset(seed=0)
        env._state[0] = cell
        obs, reward, terminated, _, _ = env.step(action)
        return int(obs), reward, terminated

    assert enter(0, up) == (0, -1.0, False)
    assert enter(1, down) == (5, -10.0, False)  # (0,1) → (1,1)
    assert enter(5, up) == (1, -1.0, False)
    assert enter(3, down) == (7, 1.0, False)  # (0,3) → (1,3)
    assert enter(7, right) == (7, -1.0, False)  # a wall, whatever the cell
    assert enter(14, right) == (15, 10.0, True)
    assert enter(12, left) == (12, -1.0, False)


@pytest.mark.statistical
def test_gridworld_noise_is_uniform_and_mean_factor_scales_rewards(base_seed: int) -> None:
    """2,000 rewards: the relative standard error of a uniform number's standard deviation is √(0.8/2000)/2 = 1 %, that of
    its mean 3.9 % of 1. P(false) ≤ 2e-5 at 4.5 of either. Catches a scale off by 5 % and a mean off by 0.18."""
    env = gymnasium.make("evenroll/GridWorld-v0", noise=3.0, mean_factor=2.0).unwrapped
    env.reset(seed=base_seed)
    rewards = []
    for _ in range(2000):
        env._state[0] = 14
        rewards.append(env.step(3)[1])
    rewards = np.array(rewards) - 20.0
    assert np.abs(rewards).max() <= 3.0
    assert rewards.std() == pytest.approx(np.sqrt(3), rel=4.5 * np.sqrt(0.8 / 2000) / 2)
    assert rewards.mean() == pytest.approx(0.0, abs=4.5 * np.sqrt(3 / 2000))


def test_fixed_bandit_is_the_published_one() -> None:
    """numpy.random.seed(0), 30 means then 30 scales."""
    np.random.seed(0)
    means, scales = np.random.uniform(0, 1, 30), np.random.uniform(0, 1, 30)
    params = get_domain("bandit:mean_factor=2,scale_factor=0.5").environment(None).params
    np.testing.assert_array_equal(params[1:31], 2 * means)
    np.testing.assert_array_equal(params[31:], 0.5 * scales)


def test_redrawn_bandit_differs_by_trial_and_knows_each_value() -> None:
    domain = get_domain("bandit:redraw=1")
    policy = domain.policy()
    values = [domain.known_truth(policy, (0, t)).value for t in range(4)]
    assert len(set(values)) == 4
    env = domain.trial_environment((0, 2))
    assert values[2] == pytest.approx(policy.table[0] @ env.params[1:31], rel=1e-12)


@pytest.mark.statistical
@pytest.mark.parametrize("spec", ["bandit", "gridworld", "gridworld:noise=2,mean_factor=3"])
def test_exact_value_length_and_variance_agree_with_simulation(spec: str, base_seed: int) -> None:
    """200,000 episodes, three numbers at 4.4 standard errors. P(false) ≤ 4e-5 (over the three domains 1e-4).
    Catches a value or length off by 0.01 of its standard deviation, a variance off by about 2 %."""
    domain = get_domain(spec)
    policy = domain.policy()
    exact = domain.known_truth(policy)
    driver = Driver(policy, OnPolicy(), (base_seed,), gamma=domain.gamma, horizon=domain.horizon)
    data = driver.run(domain.environment(None), episodes=200_000)
    n = data.episodes
    assert abs(data.returns.mean() - exact.value) < 4.4 * np.sqrt(exact.variance / n)
    assert abs(data.lengths.mean() - exact.mean_length) < 4.4 * data.lengths.std() / np.sqrt(n) + 1e-12
    centred = (data.returns - exact.value) ** 2
    assert abs(centred.mean() - exact.variance) < 4.4 * centred.std() / np.sqrt(n)


def test_gridworld_value_of_the_uniform_policy_counts_the_horizon() -> None:
    """Enumeration of the last steps: with horizon 1 from the start, any move costs 1."""
    import dataclasses

    domain = dataclasses.replace(get_domain("gridworld"), horizon=1)
    truth = domain.known_truth(TabularSoftmax(np.zeros((16, 4))))
    assert (truth.value, truth.mean_length, truth.variance) == (-1.0, 1.0, 0.0)


@pytest.mark.parametrize("name", DOMAINS)
def test_shipped_policies_have_their_provenance(name: str) -> None:
    domain = get_domain(name)
    stored = provenance(domain.shipped)
    policy = domain.policy()
    assert stored["digest"] == policy_digest(policy)
    assert stored["command"].startswith("evenroll train")
    truth = domain.known_truth(policy)
    assert truth.value == pytest.approx(stored["value"], rel=1e-9)
    assert (truth.value_se / truth.value) ** 2 <= 2e-8


def test_unknown_names_and_parameters_are_refused() -> None:
    misspelt = (
        "gridwrld",
        "gridworld:nois=1",
        "gridworld:noise=x",
        "gridworld:noise",
        "cartpole:actions=4",
        "bandit:redraw",
    )
    for bad in misspelt:
        with pytest.raises(SpecError):
            get_domain(bad)
    with pytest.raises(SpecError, match="evenroll train"):
        get_domain("cartpole:actions=3").policy()
    with pytest.raises(PolicyError, match="4 actions"):
        get_domain("gridworld").environment(None).check(TabularSoftmax(np.zeros((16, 3))))
    with pytest.raises(PolicyError):
        get_domain("gridworld").environment(None).check(TabularSoftmax(np.zeros((15, 4))))


def test_epsilon_greedy() -> None:
    policy = epsilon_greedy([2, 0], 4, 0.2)
    np.testing.assert_allclose(policy.table, [[0.05, 0.05, 0.85, 0.05], [0.85, 0.05, 0.05, 0.05]])
    deterministic = epsilon_greedy([1], 3, 0.0)
    np.testing.assert_array_equal(deterministic.table, [[0.0, 1.0, 0.0]])
    with pytest.raises(PolicyError):
        epsilon_greedy([0], 2, 1.5)


def test_the_provenance_command_makes_the_shipped_policy_again() -> None:
    from evenroll.study.training import reinforce

    stored = provenance("gridworld")
    policy = reinforce(
        get_domain("gridworld"), episodes=stored["episodes"], learning_rate=stored["learning_rate"], seed=stored["seed"]
    )
    np.testing.assert_allclose(policy.table, get_domain("gridworld").policy().table, atol=1e-9)
