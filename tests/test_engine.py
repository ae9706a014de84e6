"""The loop and the samplers: equalities that must hold exactly, and errors against theory."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy import stats

from evenroll.collection.rollouts import Rollouts
from evenroll.collection.trial import Driver
from evenroll.domains.catalogue import DOMAINS, get_domain
from evenroll.errors import EnvironmentFault, SpecError
from evenroll.policies import TabularSoftmax, epsilon_greedy
from evenroll.samplers import BPG, ROS, OffPolicy, OnPolicy
from evenroll.samplers.table import SAMPLERS, get_sampler
from evenroll.study import compare, initial_data


def collect(domain, sampler, seed=(0,), *, policy=None, initial=None, steps=None, episodes=None, **options):
    policy = policy or domain.policy()
    driver = Driver(policy, sampler, seed, gamma=domain.gamma, horizon=domain.horizon, initial=initial, value=2.0, **options)
    return driver.run(domain.trial_environment(seed), steps=steps, episodes=episodes)


def fitting_sampler(spec, domain):
    """The sampler, or a skip where it says that it cannot run this domain's policy."""
    sampler = get_sampler(spec, domain.paper)
    try:
        sampler.check(domain.policy())
    except SpecError as refusal:
        pytest.skip(str(refusal))
    return sampler


@pytest.mark.parametrize("name", DOMAINS)
def test_alpha_zero_is_on_policy_bit_for_bit(name: str) -> None:
    domain = get_domain(name)
    on_policy = collect(domain, OnPolicy(), steps=3000, record_steps=True)
    ros = collect(domain, ROS(0.0), steps=3000, record_steps=True)
    np.testing.assert_array_equal(on_policy.actions, ros.actions)
    np.testing.assert_array_equal(on_policy.returns, ros.returns)
    np.testing.assert_array_equal(ros.log_e, ros.log_b)


@pytest.mark.parametrize("name", DOMAINS)
@pytest.mark.parametrize("spec", SAMPLERS)
def test_recording_does_not_change_what_happens(name: str, spec: str) -> None:
    """Nor does stopping and going on, nor collecting by episodes instead of steps."""
    domain = get_domain(name)
    sampler = fitting_sampler(spec, domain)
    plain = collect(domain, sampler, steps=2000)
    full = collect(domain, sampler, steps=2000, record_steps=True)
    np.testing.assert_array_equal(plain.returns, full.returns)
    np.testing.assert_array_equal(plain.ends, full.ends)
    by_episode = collect(domain, sampler, episodes=plain.episodes)
    np.testing.assert_array_equal(by_episode.returns, plain.returns)
    policy = domain.policy()
    driver = Driver(policy, sampler, (0,), gamma=domain.gamma, horizon=domain.horizon, value=2.0)
    first = driver.run(domain.environment(None), steps=777)
    second = driver.run(domain.environment(None), steps=2000)
    np.testing.assert_array_equal(np.concatenate([first.returns, second.returns]), plain.returns)


@pytest.mark.parametrize("name", DOMAINS)
@pytest.mark.parametrize("spec", SAMPLERS)
def test_columns_agree_with_each_other(name: str, spec: str) -> None:
    domain = get_domain(name)
    policy = domain.policy()
    data = collect(domain, fitting_sampler(spec, domain), steps=1500, record_steps=True)
    assert data.steps == 1500 == len(data.rewards)
    start = 0
    for i, end in enumerate(data.ends):
        rewards = data.rewards[start:end]
        assert data.returns[i] == pytest.approx(np.sum(domain.gamma ** np.arange(len(rewards)) * rewards), rel=1e-12)
        log_ratio = np.sum(data.log_e[start:end] - data.log_b[start:end])
        assert data.log_weights[i] == pytest.approx(log_ratio, abs=1e-10)
        assert (end - start == domain.horizon) or data.terminated[i]
        start = end
    for t in range(0, 1500, 97):
        assert policy.log_prob(data.observations[t], data.actions[t]) == pytest.approx(data.log_e[t], abs=1e-6)


def test_trajectories_are_cut_discounted_and_counted_when_finished() -> None:
    """Horizon 3, too short for any goal, and γ = ½: g = r₀ + r₁/2 + r₂/4; what the last 2 steps begin is left out."""
    domain = dataclasses.replace(get_domain("gridworld"), gamma=0.5, horizon=3)
    data = collect(domain, OnPolicy(), steps=200, record_steps=True)
    np.testing.assert_array_equal(data.ends, np.arange(3, 199, 3))
    np.testing.assert_allclose(data.returns, data.rewards[:198].reshape(66, 3) @ [1.0, 0.5, 0.25], rtol=1e-15)
    assert not data.terminated.any()
    assert data.unfinished == 1


def test_a_checkpoint_counts_what_has_ended_by_then() -> None:
    data = Rollouts(1.0, 6, np.array([1.0, 2.0]), np.array([3, 5]), np.ones(2, bool))
    assert [data.prefix(steps).episodes for steps in range(7)] == [0, 0, 0, 1, 1, 2, 2]


def test_behaviour_log_probabilities_are_those_of_theta_b() -> None:
    """ROS on gridworld, recomputed step by step from the definition θ_b = θ_e − (α/k) S."""
    domain = get_domain("gridworld")
    policy = domain.policy()
    alpha = 500.0
    data = collect(domain, ROS(alpha), steps=400, record_steps=True)
    S = np.zeros(policy.parameters)
    for k in range(400):
        s, a = data.observations[k], data.actions[k]
        p = policy.probabilities(s, S, alpha / k if k else 0.0)
        assert np.log(p[int(a[0])]) == pytest.approx(data.log_b[k], abs=1e-9)
        S += policy.score(s, a)


@pytest.mark.parametrize("name", DOMAINS)
def test_off_policy_start_has_its_definition(name: str) -> None:
    domain = get_domain(name)
    policy = domain.policy()
    data = collect(domain, OffPolicy(0.1), steps=300, record_steps=True)
    if policy.n_actions is not None:
        expected = np.log(0.9 * np.exp(data.log_e) + 0.1 / policy.n_actions)
    else:
        mean_raw, scale_raw = np.array([policy.outputs(o) for o in data.observations]).T
        scale = 1.1 * np.logaddexp(0, scale_raw)
        z = (data.actions[:, 0] - np.tanh(mean_raw)) / scale
        expected = -0.5 * z**2 - np.log(scale) - 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(data.log_b, expected, atol=2e-5)


def test_bpg_takes_the_documented_gradient_step() -> None:
    """After one batch, θ_b = θ_e + (step/batch) Σ (g w)² Σ ∇log π, with g relative to the value."""
    domain = get_domain("gridworld")
    policy = domain.policy()
    step_size, value = 0.3, 2.0
    data = collect(domain, BPG(4, step_size), steps=200, record_steps=True)
    gradient, start = np.zeros(policy.parameters), 0
    for i in range(4):
        rows = slice(start, data.ends[i])
        total = policy.score_sum(data.observations[rows], data.actions[rows])
        gradient += (data.returns[i] / value * np.exp(data.log_weights[i])) ** 2 * total
        start = data.ends[i]
    assert np.allclose(data.log_weights[:4], 0.0)
    updated = TabularSoftmax((policy.theta + step_size / 4 * gradient).reshape(16, 4))
    for t in range(start, data.ends[4]):
        assert updated.log_prob(data.observations[t], data.actions[t]) == pytest.approx(data.log_b[t], abs=1e-9)


@pytest.mark.parametrize("name", DOMAINS)
def test_initial_data_starts_the_sum_where_the_data_left_it(name: str) -> None:
    """The first action after D₁ follows θ_e − (α/k) S with S and k of D₁."""
    domain = get_domain(name)
    policy = domain.policy()
    alpha = domain.paper["ros"]["alpha"]
    first = initial_data(domain, policy, (3,), episodes=20)
    data = collect(domain, ROS(alpha), (3,), initial=first, steps=5, record_steps=True)
    S = policy.score_sum(first.observations, first.actions)
    out = policy.outputs(data.observations[first.steps], S, alpha / first.steps)
    if policy.n_actions is not None:
        expected = out[int(data.actions[first.steps, 0])] - np.log(np.exp(out - out.max()).sum()) - out.max()
        assert data.log_b[first.steps] == pytest.approx(expected, abs=1e-4)
    assert data.initial_episodes == 20
    assert data.initial_steps == first.steps
    np.testing.assert_array_equal(data.returns[:20], first.returns)


@pytest.mark.parametrize("name", DOMAINS)
def test_huge_alpha_never_yields_nan(name: str) -> None:
    domain = get_domain(name)
    data = collect(domain, ROS(1e12), steps=3000, record_steps=True)
    assert np.isfinite(data.returns).all()
    assert np.isfinite(data.actions).all()
    assert not np.isnan(data.log_b).any()


def test_deterministic_policy_has_no_error_at_all() -> None:
    """ε = 0: both errors are 0."""
    domain = get_domain("gridworld")
    policy = epsilon_greedy(np.argmax(domain.policy().table, axis=1), 4, 0.0)
    for spec in ("os", "ros:alpha=1000"):
        result = compare(domain, [spec], policy=policy, trials=3, budget=64)
        np.testing.assert_array_equal(result.curves[0].mse, 0.0)


def test_any_number_of_workers_gives_the_same_bits() -> None:
    for name, budget in (("gridworld", 128), ("cartpole", 32)):
        methods = ["os/mc", "ros/mc", "bpg/ois", "init+ros/mc"]
        results = [
            compare(
                name, methods, trials=10, budget=budget, initial_episodes=10, seed=3, workers=w, value=4.0, mean_length=20.0
            )
            for w in (1, 2, 7)
        ]
        for other in results[1:]:
            for a, b in zip(results[0].curves, other.curves, strict=True):
                np.testing.assert_array_equal(a.estimates, b.estimates)


@pytest.mark.statistical
def test_trials_do_not_share_randomness(base_seed: int) -> None:
    """Of 500 actions of two runs 0.63 ± 0.02 differ (100 pairs). P(false) ≤ 1e-6: 0.2 is 17 standard deviations off.
    Catches trials with the same numbers: no action would differ."""
    domain = get_domain("gridworld")
    a, b = (collect(domain, OnPolicy(), (base_seed, t), steps=500, record_steps=True) for t in (0, 1))
    assert (a.actions != b.actions).mean() > 0.2


@pytest.mark.statistical
@pytest.mark.parametrize("name", DOMAINS)
def test_on_policy_error_is_its_theory(name: str, base_seed: int) -> None:
    """MSE of OS at 64 episodes over Var/(n v²) is χ² per degree, one degree a trial, and up to 5 % more because of stopping
    at a step budget (8,000 trials each: 0 to 3.9 %). P(false) ≤ 8e-5 in all, 1e-5 at either end for four domains.
    Catches a variance, or a number of episodes, that is 18 % too small or 26 % too large."""
    result = compare(name, ["os/mc"], trials=1000, budget=64, seed=base_seed)
    low, high = stats.chi2.ppf([1e-5, 1 - 1e-5], 1000) / 1000
    assert low < result.curves[0].mse[-1] / result.on_policy_theory()[-1] < 1.05 * high


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("name", "trials", "budget", "bound"),
    [("bandit:scale_factor=0.25", 100, 512, 0.5), ("gridworld", 100, 1024, 0.5), ("cartpole", 200, 64, 0.65)],
)
def test_ros_beats_on_policy_theory(name: str, trials: int, budget: int, bound: float, base_seed: int) -> None:
    """MSE of ROS over Var/(n v²) is 0.22 (the noise of the rewards, a quarter of the usual, which no sampler removes),
    0.11 and 0.42 (measured), times χ² per degree, one degree a trial. P(false) ≤ 1e-5 in all.
    Catches a method no better than on-policy sampling: it passes with probability 7e-6, 7e-6 and 3e-5."""
    result = compare(name, ["ros/mc"], trials=trials, budget=budget, seed=base_seed)
    assert result.curves[0].mse[-1] < bound * result.on_policy_theory()[-1]


def test_checkpoints_missing_trials_and_initial_checkpoint() -> None:
    result = compare("gridworld", ["os", "init+os"], trials=20, budget=6, initial_episodes=5)
    T = result.mean_length
    assert result.checkpoints == (0, int(T), int(2 * T), int(4 * T), int(6 * T))
    assert result.curves[0].missing[0] == 20
    assert np.isnan(result.curves[0].mse[0])
    assert result.curves[1].missing[0] == 0
    assert result.to_json()["methods"][0]["mse"][0] is None


def test_a_reward_that_is_not_finite_is_named() -> None:
    domain = get_domain("gridworld")
    env = domain.environment(None)
    env.params[65 + 4 * 1 + 1] = np.inf  # from (0,1) down
    driver = Driver(domain.policy(), OnPolicy(), (0,), gamma=1.0, horizon=100)
    with pytest.raises(EnvironmentFault, match=r"reward inf in trajectory \d+, step \d+"):
        driver.run(env, steps=10_000)


@pytest.mark.parametrize(
    "bad",
    [
        "rso",
        "ros:alpha=-1",
        "ros:alpha=nan",
        "ros:alpha=inf",
        "ros:beta=1",
        "ros:alpha=x",
        "ros:alpha",
        "off:delta=2",
        "bpg:batch=0",
        "bpg:batch=1.5",
        "ros/mcc",
        "ros/",
        "os/wis+mc",
        "ros:alpha=1,alpha=2",
    ],
)
def test_bad_methods_are_refused(bad: str) -> None:
    with pytest.raises(SpecError):
        compare("gridworld", [bad], trials=1, budget=1)


def test_bad_budgets_and_values_are_refused() -> None:
    for options in ({"budget": 0.5}, {"budget": float("nan")}, {"trials": 0}, {"value": 0.0}, {"mean_length": float("inf")}):
        with pytest.raises(SpecError):
            compare("gridworld", ["os"], **{"trials": 1, "budget": 1, **options})
