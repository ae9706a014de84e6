"""Other people's samplers: for each a law that it must obey."""

from __future__ import annotations

import numpy as np
import pytest

from evenroll.collection.trial import Driver
from evenroll.domains.catalogue import DOMAINS, get_domain
from evenroll.domains.tabular import tabular_environment
from evenroll.errors import SpecError
from evenroll.estimators.importance import trajectory_log_weights
from evenroll.policies import MLP, TabularSoftmax
from evenroll.samplers import ROS, OnPolicy
from evenroll.samplers.odi import ODI
from evenroll.samplers.props import PROPS
from evenroll.samplers.revar import ReVar
from evenroll.samplers.roa import ROA
from evenroll.samplers.ros_episode import ROSEpisode
from evenroll.samplers.ros_head import ROSHead
from evenroll.samplers.table import get_sampler
from evenroll.samplers.tabular_model import PRIOR
from evenroll.study.theory import count_deviation

TABLES = ("bandit", "gridworld")
NETWORKS = ("cartpole", "cartpole-continuous")


def collect(domain, sampler, *, policy=None, seed=(4,), env=None, gamma=None, **limits):
    domain = get_domain(domain)
    driver = Driver(
        policy or domain.policy(),
        sampler,
        seed,
        gamma=domain.gamma if gamma is None else gamma,
        horizon=domain.horizon,
        record_steps=True,
    )
    return driver.run(env or domain.trial_environment(seed), **limits)


def double(domain: str):
    policy = get_domain(domain).policy()
    return policy.astype(np.float64) if isinstance(policy, MLP) else policy


def linear_policy(head: str, rng: np.random.Generator, scale: str = "softplus") -> MLP:
    """A network without hidden layers for cartpole: it is all head, and small enough for finite differences."""
    rows = 2 if head == "softmax" or scale == "softplus" else 1
    log_std = rng.normal(size=1) if scale == "log_std" else None
    weight, bias = rng.normal(size=(rows, 4)), rng.normal(size=rows)
    return MLP([], weight, bias, head=head, scale=scale, log_std=log_std, dtype=np.float64)


def same_data(a, b) -> None:
    np.testing.assert_array_equal(a.actions, b.actions)
    np.testing.assert_array_equal(a.returns, b.returns)


# ---- ROA -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DOMAINS)
def test_roa_without_rho_is_on_policy_bit_for_bit(name: str) -> None:
    data = collect(name, ROA(0.0), steps=2000)
    same_data(data, collect(name, OnPolicy(), steps=2000))
    np.testing.assert_array_equal(data.log_e, data.log_b)


@pytest.mark.parametrize(("name", "steps"), [("gridworld", 300), ("cartpole", 60)])
def test_roa_behaviour_is_the_mixture_with_the_argmin(name: str, steps: int) -> None:
    """log π_b = log((1 − ρ) π_e(a) + ρ 1{a = argmin ‖S + g‖₁}), recomputed from the definition; both branches occur."""
    policy, rho = double(name), 0.4
    data = collect(name, ROA(rho), policy=policy, steps=steps)
    S, taken = np.zeros(policy.parameters), 0
    for t in range(steps):
        s, a = data.observations[t], data.actions[t]
        norms = np.array([np.abs(S + policy.score(s, [float(c)])).sum() for c in range(policy.n_actions)])
        is_best = int(a[0]) == int(np.argmax(norms <= norms.min() * (1 + 1e-10)))  # the first of equals
        taken += is_best
        assert data.log_b[t] == pytest.approx(np.log((1 - rho) * np.exp(data.log_e[t]) + rho * is_best), abs=1e-9)
        S += policy.score(s, a)
    assert 0 < taken < steps


@pytest.mark.statistical
def test_roa_on_real_actions_takes_the_best_quantile_and_gives_it_no_weight(base_seed: int) -> None:
    """ρ = 1: each action is the quantile i/10 with the least ‖S + g‖₁. ρ = ¼: a quarter has weight 0.
    P(false) ≤ 1e-4: 4 standard errors. Catches a share of 0.22 or 0.28."""
    from scipy.stats import norm

    policy = double("cartpole-continuous")
    data = collect("cartpole-continuous", ROA(1.0), policy=policy, steps=25)
    S = np.zeros(policy.parameters)
    for t in range(25):
        s, a = data.observations[t], data.actions[t]
        mean, scale = (lambda o: (np.tanh(o[0]), np.logaddexp(0, o[1])))(policy.outputs(s))
        quantiles = mean + scale * norm.ppf(np.arange(1, 10) / 10)
        norms = [np.abs(S + policy.score(s, [q])).sum() for q in quantiles]
        assert a[0] == pytest.approx(quantiles[np.argmin(norms)], abs=1e-9)
        S += policy.score(s, a)
    mixed = collect("cartpole-continuous", ROA(0.25), policy=policy, seed=(base_seed,), steps=4000)
    searched = np.isposinf(mixed.log_b)
    assert abs(searched.mean() - 0.25) < 4 * np.sqrt(0.25 * 0.75 / 4000)
    np.testing.assert_allclose(mixed.log_b[~searched], mixed.log_e[~searched] + np.log(0.75), rtol=1e-12)
    log_w = trajectory_log_weights(mixed)
    first = np.concatenate([[0], mixed.ends[:-1]])
    any_searched = np.logical_or.reduceat(searched[: mixed.ends[-1]], first)
    np.testing.assert_array_equal(np.isneginf(log_w), any_searched)


def test_greedy_roa_keeps_counts_within_the_bounds_of_lemma_1(base_seed: int) -> None:
    """|count(s,a) − visits(s) π(a|s)| ≤ |A| − 1 at all times, on random policies (exact: no chance of failure seen)."""
    rng = np.random.default_rng(base_seed)
    for actions in (2, 3, 5):
        policy = TabularSoftmax(rng.normal(size=(2, actions)))
        P = rng.dirichlet(np.ones(2), size=(2, actions))
        env = tabular_environment(P, np.zeros((2, actions)), [0.5, 0.5])
        data = collect("gridworld", ROA(1.0), policy=policy, env=env, steps=2000)
        for s in range(2):
            deviation = count_deviation(data.actions[data.observations[:, 0] == s, 0], policy.table[s])
            assert np.abs(deviation).max() <= actions - 1 + 1e-9


def test_roa_leaves_certain_and_impossible_actions_alone() -> None:
    policy = TabularSoftmax.from_probabilities([[0.0, 1.0, 0.0], [0.5, 0.5, 0.0]])
    env = tabular_environment(np.full((2, 3, 2), 0.5), np.zeros((2, 3)), [0.5, 0.5])
    data = collect("gridworld", ROA(1.0), policy=policy, env=env, steps=500)
    states, actions = data.observations[:, 0], data.actions[:, 0]
    np.testing.assert_array_equal(actions[states == 0], 1)
    assert set(actions[states == 1]) == {0, 1}
    np.testing.assert_array_equal(data.log_b[states == 0], data.log_e[states == 0])


# ---- ROS between trajectories, ROS in the head ------------------------------------------------------------------


@pytest.mark.parametrize("name", DOMAINS)
def test_ros_episode_is_on_policy_within_the_first_trajectory(name: str) -> None:
    alpha = get_domain(name).paper["ros"]["alpha"]
    data = collect(name, ROSEpisode(alpha), episodes=2)
    same_data(collect(name, OnPolicy(), episodes=1), collect(name, ROSEpisode(alpha), episodes=1))
    np.testing.assert_array_equal(data.log_e[: data.ends[0]], data.log_b[: data.ends[0]])
    if name != "bandit":
        assert (data.log_e != data.log_b)[data.ends[0] :].any()


def test_ros_episode_is_ros_where_trajectories_are_one_step() -> None:
    same_data(collect("bandit", ROS(1e4), steps=3000), collect("bandit", ROSEpisode(1e4), steps=3000))


def test_ros_episode_acts_on_the_scores_of_finished_trajectories() -> None:
    policy, alpha = get_domain("gridworld").policy(), 700.0
    data = collect("gridworld", ROSEpisode(alpha), episodes=30)
    start = 0
    for end in data.ends:
        S = policy.score_sum(data.observations[:start], data.actions[:start])
        for t in range(start, end):
            p = policy.probabilities(data.observations[t], S, alpha / start if start else 0.0)
            assert np.log(p[int(data.actions[t, 0])]) == pytest.approx(data.log_b[t], abs=1e-9)
        start = end


@pytest.mark.parametrize("name", TABLES)
def test_ros_head_on_a_table_is_ros_bit_for_bit(name: str) -> None:
    alpha = get_domain(name).paper["ros"]["alpha"]
    a, b = (collect(name, kind(alpha), steps=3000) for kind in (ROS, ROSHead))
    same_data(a, b)
    np.testing.assert_array_equal(a.log_b, b.log_b)


@pytest.mark.parametrize(
    ("name", "head", "scale"),
    [
        ("cartpole", "softmax", "softplus"),
        ("cartpole-continuous", "gaussian", "softplus"),
        ("cartpole-continuous", "gaussian", "log_std"),
    ],
)
def test_ros_head_is_ros_for_a_policy_that_is_all_head(name: str, head: str, scale: str, base_seed: int) -> None:
    policy = linear_policy(head, np.random.default_rng(base_seed), scale)
    a, b = (collect(name, kind(0.5), policy=policy, steps=1000) for kind in (ROS, ROSHead))
    np.testing.assert_allclose(a.actions, b.actions, atol=1e-6)
    np.testing.assert_allclose(a.log_b, b.log_b, atol=1e-6)
    assert np.abs(b.log_b - b.log_e).max() > 1e-3


def test_ros_head_moves_only_the_last_layer() -> None:
    """ROS on the same data with every score but the head's set to 0."""
    policy, alpha = double("cartpole"), 5.0
    data = collect("cartpole", ROSHead(alpha), policy=policy, steps=150)
    S, head = np.zeros(policy.parameters), policy.head_weight.size + policy.head_bias.size
    for k in range(150):
        s, a = data.observations[k], data.actions[k]
        p = policy.probabilities(s, S, alpha / k if k else 0.0)
        assert np.log(p[int(a[0])]) == pytest.approx(data.log_b[k], abs=1e-9)
        score = policy.score(s, a)
        score[:-head] = 0.0
        S += score


# ---- PROPS ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DOMAINS)
def test_props_without_learning_is_on_policy_bit_for_bit(name: str) -> None:
    same_data(collect(name, OnPolicy(), steps=2000), collect(name, PROPS(learning_rate=0.0), steps=2000))


@pytest.mark.parametrize(("name", "head"), [("cartpole", "softmax"), ("cartpole-continuous", "gaussian")])
def test_props_follows_its_objective(name: str, head: str, base_seed: int) -> None:
    """Four Adam steps on E[max(r, clip r)] + λ KL, with finite differences for gradients, give the same behaviour."""
    policy = linear_policy(head, np.random.default_rng(base_seed))
    rate, clip, penalty, every = 0.1, 0.3, 0.7, 40
    sampler = PROPS(rate, clip, penalty, 10.0, every=every, buffer=100, epochs=2, batch=20)
    data = collect(name, sampler, policy=policy, steps=2 * every - 1)
    np.testing.assert_array_equal(data.log_b[:every], data.log_e[:every])

    def distribution(theta, rows):
        out = np.array([policy.with_theta(theta).outputs(s) for s in data.observations[rows]])
        if head == "gaussian":
            return np.tanh(out[:, 0]), np.logaddexp(0, out[:, 1])
        p = np.exp(out - out.max(axis=1, keepdims=True))
        return p / p.sum(axis=1, keepdims=True)

    def loss(theta, rows):
        seen = data.observations[rows], data.actions[rows]
        log_p = [policy.with_theta(theta).log_prob(s, a) for s, a in zip(*seen, strict=True)]
        r = np.exp(log_p - data.log_e[rows])
        phi, at_theta = distribution(theta, rows), distribution(policy.theta, rows)
        if head == "gaussian":
            (mp, sp), (m, s) = phi, at_theta
            kl = np.log(s / sp) + (sp**2 + (mp - m) ** 2) / (2 * s**2) - 0.5
        else:
            kl = (phi * np.log(phi / at_theta)).sum(axis=1)
        return np.mean(np.maximum(r, np.clip(r, 1 - clip, 1 + clip))) + penalty * np.mean(kl)

    phi, mean, square = policy.theta.copy(), 0.0, 0.0
    for step in range(1, 5):
        rows = slice((step - 1) % 2, every, 2)
        gradient = np.array(
            [(loss(phi + e, rows) - loss(phi - e, rows)) / 2e-5 for e in 1e-5 * np.eye(len(phi))]
        )  # fmt: skip
        mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
        phi = phi - rate * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)
    fitted = policy.with_theta(phi)
    for t in range(every, 2 * every - 1):
        assert fitted.log_prob(data.observations[t], data.actions[t]) == pytest.approx(data.log_b[t], abs=1e-4)
    assert np.abs(data.log_b - data.log_e)[every:].max() > 0.02


def test_props_makes_under_sampled_actions_likelier_and_stops_in_time() -> None:
    policy = TabularSoftmax(np.zeros((1, 2)))
    env = tabular_environment(np.ones((1, 2, 1)), np.zeros((1, 2)), [1.0], [1.0])
    sampler = PROPS(0.05, every=50, buffer=50, epochs=20, max_divergence=0.01)
    for seed in range(10):
        data = collect("bandit", sampler, policy=policy, env=env, seed=(seed,), steps=51)
        share = data.actions[:50, 0].mean()
        p_one = np.exp(data.log_b[50]) if data.actions[50, 0] == 1 else 1 - np.exp(data.log_b[50])
        if share != 0.5:
            assert (p_one < 0.5) == (share > 0.5)
        r = np.where(data.actions[:50, 0] == 1, p_one, 1 - p_one) / 0.5
        assert np.mean(r - 1 - np.log(r)) < 0.02  # at most one Adam step beyond δ


# ---- ReVar and ODI -----------------------------------------------------------------------------------------------


def tree():
    """From state 0 an action leads to state 1, state 2 or the end; from there to the end. No noise."""
    P, R = np.zeros((4, 3, 4)), np.zeros((4, 3))
    P[0, 0, 1] = P[0, 1, 2] = P[0, 2, 3] = 1.0
    P[1, :, 3] = P[2, :, 3] = P[3, :, 3] = 1.0
    R[0], R[1], R[2] = [1.0, -2.0, 4.0], [3.0, -1.0, 0.5], [0.0, 2.0, -3.0]
    policy = TabularSoftmax.from_probabilities([[0.5, 0.3, 0.2], [0.2, 0.5, 0.3], [0.1, 0.6, 0.3], [0.4, 0.3, 0.3]])
    return tabular_environment(P, R, [1.0, 0, 0, 0], [0, 0, 0, 1.0]), R, policy


def designed(policy, strengths, counts, mix, prior=PRIOR):
    """b from known strengths, with the documented shrinkage and mixture."""
    pi = policy.table
    average = (pi * strengths * (counts > 0)).sum(1) / np.maximum((pi * (counts > 0)).sum(1), 1e-300)
    b = pi * np.sqrt((counts * strengths + prior * average[:, None]) / (counts + prior))
    return (1 - mix) * b / np.maximum(b.sum(1, keepdims=True), 1e-300) + mix * pi


def counts_until(data, episodes, shape):
    end = data.ends[episodes - 1]
    cells = data.observations[:end, 0] * shape[1] + data.actions[:end, 0]
    return np.bincount(cells.astype(int), minlength=shape[0] * shape[1]).reshape(shape).astype(float)


@pytest.mark.parametrize("gamma", [1.0, 0.7])
def test_odi_is_its_closed_form(gamma: float) -> None:
    """b ∝ π √E[G²|s, a], E[G²] by enumeration; the design of trajectory 200 is in force until it is renewed at 250."""
    env, R, policy = tree()
    data = collect("gridworld", ODI(first=200, mix=0.05), policy=policy, env=env, gamma=gamma, episodes=249)
    np.testing.assert_allclose(data.log_b[: data.ends[199]], data.log_e[: data.ends[199]], atol=1e-12)
    pi = policy.table
    second = R**2
    for s, a in ((0, 0), (0, 1)):
        follow = gamma * R[a + 1]
        second[s, a] = (pi[a + 1] * (R[s, a] + follow) ** 2).sum()
    counts = counts_until(data, 200, R.shape)
    assert counts[:3].min() > 0
    b = designed(policy, second, counts, 0.05)
    for t in range(data.ends[199], data.steps):
        s, a = int(data.observations[t, 0]), int(data.actions[t, 0])
        assert data.log_b[t] == pytest.approx(np.log(b[s, a]), abs=1e-9)


@pytest.mark.statistical
def test_odi_on_the_bandit_needs_fewer_pulls_than_on_policy(base_seed: int) -> None:
    """With E[r²|a] known, b ∝ π √E[r²|a] has the variance (Σ π √E[r²])² − v². After 30,000 pulls the design is near it:
    E_b[w² r²] with exact moments is 1.0005 ± 0.0001 of it (40 runs), and clearly below the on-policy E_π[r²].
    P(false) ≤ 1e-6 at 1.01. Catches a design of other moments: any that costs 1 %."""
    domain = get_domain("bandit")
    policy, env = domain.policy(), domain.environment(None)
    means, scales = env.params[1:31], env.params[31:]
    data = collect("bandit", ODI(mix=0.0), seed=(base_seed,), steps=30_000)
    second, pi = means**2 + scales**2, policy.table[0]
    actions = data.actions[-4000:, 0].astype(int)
    b = np.full(30, np.nan)
    b[actions] = np.exp(data.log_b[-4000:])
    assert np.isfinite(b).all()
    achieved, best, on_policy = (pi**2 * second / b).sum(), (pi @ np.sqrt(second)) ** 2, pi @ second
    assert best - 1e-12 <= achieved < 1.01 * best < on_policy


@pytest.mark.statistical
def test_revar_on_the_bandit_is_its_closed_form(base_seed: int) -> None:
    """b ∝ π σ once σ is known: after 30,000 pulls Σ π² σ²/b is 1.0012 ± 0.0002 of (Σ π σ)², the least possible (40 runs).
    P(false) ≤ 1e-6 at 1.01. Catches a design of other moments: any that costs 1 %."""
    domain = get_domain("bandit")
    policy, env = domain.policy(), domain.environment(None)
    scales, pi = env.params[31:], policy.table[0]
    data = collect("bandit", ReVar(mix=0.0), seed=(base_seed,), steps=30_000)
    actions = data.actions[-4000:, 0].astype(int)
    b = np.full(30, np.nan)
    b[actions] = np.exp(data.log_b[-4000:])
    seen = np.isfinite(b)  # an arm of hardly any noise is hardly ever pulled
    achieved, best = (pi**2 * scales**2 / b)[seen].sum(), (pi[seen] @ scales[seen]) ** 2
    assert scales[~seen].max(initial=0.0) < 0.1
    assert achieved < 1.01 * best < pi @ scales**2


def test_revar_has_nothing_to_gain_from_rewards_without_noise() -> None:
    data = collect("gridworld", ReVar(), steps=3000)
    same_data(data, collect("gridworld", OnPolicy(), steps=3000))
    np.testing.assert_allclose(data.log_b, data.log_e, atol=1e-12)


@pytest.mark.parametrize("spec", ["revar", "odi"])
@pytest.mark.parametrize("name", NETWORKS)
def test_tabular_designs_refuse_networks(name: str, spec: str) -> None:
    with pytest.raises(SpecError, match=f"{spec} needs a tabular policy"):
        collect(name, get_sampler(spec), steps=10)


# ---- all -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad",
    [
        "roa:rho=1.5",
        "roa:rho=nan",
        "roa:rho=0.5,candidates=0",
        "ros-episode:alpha=-1",
        "ros-head:alpha=inf",
        "props:clip=-1",
        "props:every=0",
        "odi:first=0",
        "revar:mix=2",
    ],
)
def test_bad_parameters_are_refused(bad: str) -> None:
    with pytest.raises(SpecError):
        get_sampler(bad, get_domain("gridworld").paper)
