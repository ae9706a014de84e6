"""Estimators against exact values: random small MDPs in which every trajectory can be listed."""

from __future__ import annotations

import dataclasses
import math
import sys
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenroll.collection.rollouts import Rollouts
from evenroll.collection.trial import Driver
from evenroll.domains.catalogue import get_domain
from evenroll.errors import DataError, NoEstimate, SpecError
from evenroll.estimators.doubly_robust import doubly_robust, weighted_doubly_robust
from evenroll.estimators.fqe import TableQ, fitted_q_evaluation, steps_of
from evenroll.estimators.fqe_net import NetSettings, fitted_q_network
from evenroll.estimators.importance import effective_sample_size, largest_weight
from evenroll.estimators.table import ESTIMATORS
from evenroll.policies import MLP, TabularSoftmax
from evenroll.samplers import OffPolicy, OnPolicy
from evenroll.study import compare, initial_data

END = -1
QUICK = [name for name in ESTIMATORS if not name.startswith("fqe-net")]


@dataclass(frozen=True)
class SmallMDP:
    """Every successor and start comes in two draws of probability ½ (they may agree); π_b in quarters."""

    successors: np.ndarray  # [S, A, 2], END for termination
    rewards: np.ndarray  # [S, A]
    starts: np.ndarray  # [2]
    quarters: np.ndarray  # [S, A] π_b · 4
    policy: TabularSoftmax  # π_e
    horizon: int
    gamma: float

    def value(self) -> float:
        """Dynamic programming over the steps to go."""
        v = np.zeros(len(self.rewards) + 1)  # the last entry is END
        for _ in range(self.horizon):
            q = self.rewards + self.gamma * v[self.successors].mean(axis=2)
            v[:-1] = (self.policy.table * q).sum(axis=1)
        return float(v[self.starts].mean())

    def trajectories(self) -> list[tuple[int, list[tuple[int, int]], bool]]:
        """(how often among 2·8^horizon, the steps (s, a), whether it terminated) under π_b."""
        found = []

        def walk(state: int, steps: list[tuple[int, int]], times: int) -> None:
            if state == END or len(steps) == self.horizon:
                found.append((times, steps, state == END))
                return
            for action, quarter in enumerate(self.quarters[state]):
                for successor in self.successors[state, action]:
                    walk(successor, [*steps, (state, action)], times * int(quarter) // 8)

        for start in self.starts:
            walk(start, [], 8**self.horizon)
        return [x for x in found if x[0]]

    def rollouts(self, listed: list[tuple[list[tuple[int, int]], bool]]) -> Rollouts:
        states, actions = np.array([step for steps, _ in listed for step in steps]).T
        rewards = self.rewards[states, actions]
        lengths = np.array([len(steps) for steps, _ in listed])
        discounts = np.concatenate([self.gamma ** np.arange(n) for n in lengths])
        ends = np.cumsum(lengths)
        with np.errstate(divide="ignore"):
            log_e = np.log(self.policy.table[states, actions])
        return Rollouts(
            self.gamma, int(ends[-1]), np.add.reduceat(discounts * rewards, ends - lengths), ends,
            np.array([over for _, over in listed]), observations=states[:, None].astype(float),
            actions=actions[:, None].astype(float), rewards=rewards, log_e=log_e,
            log_b=np.log(self.quarters[states, actions] / 4.0), horizon=self.horizon,
        )  # fmt: skip

    def population(self) -> Rollouts:
        """Every trajectory exactly as often as π_b makes it."""
        return self.rollouts([(steps, over) for times, steps, over in self.trajectories() for _ in range(times)])


def small_mdp(seed: int, horizon: int | None = None) -> SmallMDP:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 4))
    two = rng.integers(1, 4, size=n)
    pi = rng.dirichlet([0.7, 0.7], size=n)
    pi[rng.random(n) < 0.2] = [0.0, 1.0]
    return SmallMDP(
        rng.integers(END, n, size=(n, 2, 2)), rng.normal(size=(n, 2)), rng.integers(0, n, size=2),
        np.stack([two, 4 - two], axis=1), TabularSoftmax.from_probabilities(pi),
        horizon or int(rng.integers(1, 4)), float(rng.choice([0.5, 0.9, 1.0])),
    )  # fmt: skip


def random_q(mdp: SmallMDP, seed: int) -> TableQ:
    q = np.random.default_rng(seed).normal(size=(mdp.horizon + 1, *mdp.rewards.shape))
    return TableQ(q, (mdp.policy.table * q).sum(axis=2), mdp.policy)


def unbiased(mdp: SmallMDP, seed: int):
    q = random_q(mdp, seed)
    return {
        "ois": lambda data: ESTIMATORS["ois"](data, mdp.policy),
        "pdis": lambda data: ESTIMATORS["pdis"](data, mdp.policy),
        "dr": lambda data: doubly_robust(data, mdp.policy, q),
    }


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(0, 2**32))
def test_unbiased_over_all_trajectories(seed: int) -> None:
    mdp = small_mdp(seed)
    total = 2 * 8**mdp.horizon
    for name, estimate in unbiased(mdp, seed).items():
        mean = sum(times / total * estimate(mdp.rollouts([(steps, over)])) for times, steps, over in mdp.trajectories())
        assert mean == pytest.approx(mdp.value(), abs=1e-10), name


@pytest.mark.parametrize("seed", [1, 2])
def test_unbiased_when_the_second_trajectory_depends_on_the_first(seed: int) -> None:
    """Balancing samplers: π_b of the next trajectory depends on what has been collected."""
    mdp = small_mdp(seed, horizon=2)
    total = 2 * 8**mdp.horizon
    sums = dict.fromkeys(unbiased(mdp, seed), 0.0)
    for times, steps, over in mdp.trajectories():
        adapted = dataclasses.replace(mdp, quarters=mdp.quarters[:, ::-1] if steps[0][1] else np.full_like(mdp.quarters, 2))
        first = mdp.rollouts([(steps, over)])
        for times2, steps2, over2 in adapted.trajectories():
            data = adapted.rollouts([(steps2, over2)]).after(first)
            for name, estimate in unbiased(mdp, seed).items():
                sums[name] += times / total * times2 / total * estimate(data)
    for name, mean in sums.items():
        assert mean == pytest.approx(mdp.value(), abs=1e-10), name


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(0, 2**32))
def test_complete_data_gives_the_exact_value(seed: int) -> None:
    """FQE and DR on a complete table are dynamic programming; the consistent ones reach their limit."""
    mdp = small_mdp(seed)
    data = mdp.population()
    for name in ("ois", "wis", "pdis", "ris", "wris", "fqe", "dr", "wdr"):
        assert ESTIMATORS[name](data, mdp.policy) == pytest.approx(mdp.value(), abs=1e-10), name
    assert weighted_doubly_robust(data, mdp.policy, random_q(mdp, seed)) == pytest.approx(mdp.value(), abs=1e-10)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.integers(0, 2**32))
def test_per_decision_equals_ordinary_when_only_the_last_reward_counts(seed: int) -> None:
    mdp = small_mdp(seed)
    data = mdp.population()
    last = np.isin(np.arange(data.steps), data.ends - 1)
    rewards = np.where(last, data.rewards, 0.0)
    returns = (mdp.gamma ** (data.lengths - 1)) * rewards[data.ends - 1]
    data = dataclasses.replace(data, rewards=rewards, returns=returns)
    assert ESTIMATORS["pdis"](data, mdp.policy) == pytest.approx(ESTIMATORS["ois"](data, mdp.policy), abs=1e-12)


@pytest.mark.statistical
@pytest.mark.parametrize("spec", ["init+os", "off:delta=0.3"])
def test_all_converge_on_gridworld(spec: str, base_seed: int) -> None:
    """4,000 episodes, value 4.39. ois and pdis within 6 standard errors of their terms, wis within 6 of weighted deviations,
    0.31; so too ris and wris, which have less variance, where one policy made the data; a mixture of two is no policy, and
    they are off by 0.26 and 0.20 there however much data there is: within 9 (30 runs: 4.7 ± 0.6 and 3.4 ± 0.4). What is
    fitted to a deterministic domain is exact once all actions have been taken; the rarest is expected 45 times or more.
    P(false) ≤ 1e-5: weights have heavy tails, 6 standard errors of a normal number would be 1e-8.
    Catches a bias of 0.3 (wis), 0.7 (ois), 1 (pdis) or 1e-8 (fqe, dr, wdr, score)."""
    domain = get_domain("gridworld")
    policy = domain.policy()
    env, init = domain.trial_environment((base_seed,)), None
    sampler = OnPolicy() if spec == "init+os" else OffPolicy(0.3)
    if spec == "init+os":
        init = initial_data(domain, policy, (base_seed,), episodes=1000, delta=0.3)
    driver = Driver(policy, sampler, (base_seed,), gamma=1.0, horizon=100, initial=init, record_steps=True)
    data = driver.run(env, episodes=3000 if init else 4000)
    known = domain.known_truth(policy)
    assert known is not None
    starts, log_ratio = data.ends - data.lengths, data.column("log_e") - data.column("log_b")
    before = np.repeat((np.cumsum(log_ratio) - log_ratio)[starts], data.lengths)  # Σ log π_e/π_b of earlier trajectories
    weights = np.exp(data.column("log_weights"))

    def error(terms: np.ndarray) -> float:
        return float(terms.std() / np.sqrt(data.episodes))

    spread = error(weights * (data.returns - known.value))
    within = dict.fromkeys(("fqe", "dr", "wdr", "score"), 1e-8) | dict.fromkeys(("wis", "wis+mc"), 6 * spread)
    within |= dict.fromkeys(("ris", "wris"), (9 if init else 6) * spread)
    within["ois"] = 6 * error(weights * data.returns)
    within["pdis"] = 6 * error(np.add.reduceat(np.exp(np.cumsum(log_ratio) - before) * data.column("rewards"), starts))
    assert within.keys() | {"mc"} == set(QUICK)
    assert spread < 0.06
    for name in within.keys() - (set() if init else {"wis+mc"}):
        assert ESTIMATORS[name](data, policy) == pytest.approx(known.value, abs=within[name]), name


def test_fqe_without_horizon_solves_the_loop() -> None:
    """s stays under action 0 and ends under action 1: V = π₀(r₀ + γV) + π₁r₁."""
    data = Rollouts(
        0.9, 3, np.array([2.0 + 0.9 * 5.0, 5.0]), np.array([2, 3]), np.array([True, True]),
        observations=np.zeros((3, 1)), actions=np.array([[0.0], [1.0], [1.0]]), rewards=np.array([2.0, 5.0, 5.0]),
    )  # fmt: skip
    policy = TabularSoftmax.from_probabilities([[0.3, 0.7]])
    assert fitted_q_evaluation(data, policy) == pytest.approx((0.3 * 2 + 0.7 * 5) / (1 - 0.9 * 0.3), abs=1e-12)
    never = TabularSoftmax.from_probabilities([[1.0, 0.0]])
    with pytest.raises(NoEstimate, match="never leaves"):
        fitted_q_evaluation(dataclasses.replace(data, gamma=1.0), never)


def test_steps_at_the_horizon_say_nothing_about_termination() -> None:
    """Horizon 2: trajectories (end at once), (go on, end at the horizon), (go on, truncated)."""
    data = Rollouts(1.0, 5, np.ones(3), np.array([1, 3, 5]), np.array([True, True, False]), horizon=2)
    steps = steps_of(data)
    assert (list(steps.going), list(steps.over), list(steps.times)) == ([1, 3], [0], [0, 0, 1, 0, 1])
    assert steps_of(dataclasses.replace(data, horizon=None)).horizon == 2  # read off the truncated one
    with pytest.raises(DataError, match="more than the horizon"):
        steps_of(dataclasses.replace(data, horizon=1))


def one_hot(mdp: SmallMDP, data: Rollouts) -> tuple[MLP, Rollouts]:
    """The same table as a linear network of one-hot observations."""
    n = len(mdp.rewards)
    with np.errstate(divide="ignore"):
        logits = np.maximum(np.log(mdp.policy.table), -40.0)
    policy = MLP([], logits.T, np.zeros(2), dtype=np.float64)
    return policy, dataclasses.replace(data, observations=np.eye(n)[data.column("observations")[:, 0].astype(int)])


@pytest.mark.parametrize("seed", range(8))
def test_linear_fits_on_one_hot_features_equal_the_table(seed: int) -> None:
    mdp = small_mdp(seed, horizon=3)
    data = mdp.population()
    policy, vectors = one_hot(mdp, data)
    for name in ("fqe", "dr", "wdr", "ris", "wris"):
        assert ESTIMATORS[name](vectors, policy) == pytest.approx(ESTIMATORS[name](data, mdp.policy), abs=2e-3), name


def test_gaussian_fqe_integrates_a_quadratic_reward_exactly() -> None:
    """r = 3 + 2a + a², one state, horizon 2: V = (1 + γ)(3 + 2μ + μ² + σ²)."""
    policy = MLP([], [[0.0], [0.0]], [0.4, 0.2], head="gaussian", mean="identity", dtype=np.float64)
    mu, sigma = 0.4, math.log1p(math.exp(0.2))
    a = np.random.default_rng(0).normal(size=400)
    data = Rollouts(
        0.9, 400, np.zeros(200), np.arange(2, 402, 2), np.zeros(200, bool), observations=np.ones((400, 1)),
        actions=a[:, None], rewards=3 + 2 * a + a**2, horizon=2,
    )  # fmt: skip
    assert fitted_q_evaluation(data, policy) == pytest.approx(1.9 * (3 + 2 * mu + mu**2 + sigma**2), rel=1e-4)


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["cartpole", "cartpole-continuous"])
def test_network_policies(name: str, base_seed: int) -> None:
    """600 episodes: every estimate within 8 standard errors of MC's own (36 ± 16/√600). They share its data: the farthest is
    1.1 ± 0.7 away (20 runs). P(false) ≤ 1e-5: 8 is 9 standard deviations off. Catches a relative bias of 15 %.
    Little data gives a possible value too, or FQE says that it is too little."""
    domain = get_domain(name)
    policy = domain.policy()
    driver = Driver(policy, OnPolicy(), (base_seed,), gamma=domain.gamma, horizon=domain.horizon, record_steps=True)
    data = driver.run(domain.trial_environment((base_seed,)), episodes=600)
    error = data.returns.std() / np.sqrt(600)
    for which in ("ois", "wis", "pdis", "wris", "fqe", "dr", "wdr"):
        assert ESTIMATORS[which](data, policy) == pytest.approx(data.returns.mean(), abs=8 * error), which
        try:
            few = ESTIMATORS[which](data.prefix(int(data.ends[2])), policy)
        except NoEstimate:
            assert which in ("fqe", "dr", "wdr")
        else:
            assert abs(few) <= 2 * (1 - domain.gamma**200) / (1 - domain.gamma), which


# ---- weights -------------------------------------------------------------------------------------------------


def weighted_data(log_e, log_b, ends, rewards=None, gamma: float = 1.0) -> Rollouts:
    log_e, log_b, ends = np.asarray(log_e, float), np.asarray(log_b, float), np.asarray(ends)
    rewards = np.isin(np.arange(len(log_e)), ends - 1).astype(float) if rewards is None else np.asarray(rewards, float)
    n = len(ends)
    returns = np.add.reduceat(rewards, np.concatenate([[0], ends[:-1]]))
    zeros = np.zeros((len(log_e), 1))
    return Rollouts(
        gamma, len(log_e), returns, ends, np.ones(n, bool), observations=zeros, actions=zeros, rewards=rewards,
        log_e=log_e, log_b=log_b,
    )  # fmt: skip


POLICY = TabularSoftmax([[0.0, 0.0]])


def test_long_products_are_exact() -> None:
    """10,000 steps at p = 1e-3, π_e/π_b = 1 + 1e-4 at each."""
    data = weighted_data(np.full(10_000, math.log(1e-3) + math.log1p(1e-4)), np.full(10_000, math.log(1e-3)), [10_000])
    for name in ("ois", "pdis"):
        assert ESTIMATORS[name](data, POLICY) == pytest.approx(math.exp(10_000 * math.log1p(1e-4)), rel=1e-10)


@pytest.mark.parametrize("sign", [1, -1])
def test_weights_beyond_floating_point(sign: int) -> None:
    """Weights exp(±69,078) and half of it: weighted estimators stay finite and right; ordinary ones say so or give 0."""
    p, other = np.full(20_000, math.log(1e-3)), np.zeros(20_000)
    other[10_000:] = math.log(1e-3)  # the second trajectory has weight 1
    p[10_000:] += sign * math.log(3.0) / 10_000
    log_e, log_b = (other, p) if sign > 0 else (p, other)
    data = weighted_data(log_e, log_b, [10_000, 20_000], rewards=[*np.zeros(9_999), 7.0, *np.zeros(9_999), 1.0])
    heavy = 7.0 if sign > 0 else 1.0
    assert ESTIMATORS["wis"](data, POLICY) == pytest.approx(heavy, abs=1e-10)
    weights = ESTIMATORS["wis"].log_weights(data, POLICY)
    assert effective_sample_size(weights) == pytest.approx(1.0)
    assert largest_weight(weights) == pytest.approx(1.0)
    for name in ("ois", "pdis"):
        if sign > 0:
            with pytest.raises(NoEstimate, match="beyond floating point"):
                ESTIMATORS[name](data, POLICY)
        else:
            assert ESTIMATORS[name](data, POLICY) == pytest.approx(math.exp(weights[1]) / 2, rel=1e-10)


def test_effective_sample_size() -> None:
    assert effective_sample_size(np.log([1.0, 1.0, 2.0])) == pytest.approx(16 / 6)
    assert largest_weight(np.log([1.0, 1.0, 2.0])) == pytest.approx(0.5)
    assert effective_sample_size(np.full(3, -np.inf)) == largest_weight(np.full(3, -np.inf)) == 0.0


@pytest.mark.parametrize("name", ["ois", "wis", "pdis", "dr", "wdr"])
def test_impossible_behaviour_names_the_step(name: str) -> None:
    data = weighted_data([0, 0, 0, 0, 0], [0, 0, 0, -np.inf, 0], [2, 5])
    with pytest.raises(DataError, match=r"trajectory 1, step 1:.*probability 0"):
        ESTIMATORS[name](data, POLICY)


def test_impossible_behaviour_without_steps_names_the_trajectory() -> None:
    data = Rollouts(1.0, 2, np.ones(2), np.array([1, 2]), np.ones(2, bool), log_weights=np.array([0.0, np.inf]))
    with pytest.raises(DataError, match="trajectory 1"):
        ESTIMATORS["wis"](data, POLICY)


def test_impossible_actions_of_the_evaluation_policy_weigh_nothing() -> None:
    data = weighted_data([0, -np.inf, 0, 0], np.log([1, 0.5, 0.5, 0.5]), [2, 4], rewards=[10, 100, 3, 5])
    assert ESTIMATORS["wis"](data, POLICY) == pytest.approx(8.0)
    assert ESTIMATORS["ois"](data, POLICY) == pytest.approx(4 * 8 / 2)
    assert ESTIMATORS["pdis"](data, POLICY) == pytest.approx((10 + 2 * 3 + 4 * 5) / 2)
    assert ESTIMATORS["wris"](data, POLICY) == pytest.approx(8.0)
    assert np.isfinite(ESTIMATORS["wdr"](data, POLICY))
    none = weighted_data([-np.inf], [0.0], [1])
    assert ESTIMATORS["ois"](none, POLICY) == 0.0
    with pytest.raises(NoEstimate, match="every weight is 0"):
        ESTIMATORS["wis"](none, POLICY)


def test_fqe_says_when_the_data_has_no_action_of_the_policy() -> None:
    data = weighted_data([0.0], [0.0], [1])  # only action 0
    with pytest.raises(NoEstimate, match="no action the evaluation policy"):
        fitted_q_evaluation(data, TabularSoftmax.from_probabilities([[0.0, 1.0]]))


# ---- every estimator -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(ESTIMATORS))
def test_nothing_finished_is_no_estimate(name: str) -> None:
    empty = np.zeros((1, 1))
    data = Rollouts(
        1.0, 1, np.zeros(0), np.zeros(0, int), np.zeros(0, bool), np.zeros(0), empty, empty, np.zeros(1), np.zeros(1),
        np.zeros(1),
    )  # fmt: skip
    with pytest.raises(NoEstimate, match="finished"):
        ESTIMATORS[name](data, POLICY)


@pytest.mark.parametrize("name", sorted(set(ESTIMATORS) - {"mc", "wis+mc"}))
def test_missing_columns_are_named(name: str) -> None:
    data = Rollouts(1.0, 4, np.ones(4), np.arange(1, 5), np.ones(4, bool))
    with pytest.raises(DataError, match="collected without"):
        ESTIMATORS[name](data, POLICY)


def test_selectable_in_compare_and_initial_data() -> None:
    result = compare("gridworld", [f"init+os/{name}" for name in QUICK], trials=2, budget=32, initial_episodes=20, workers=1)
    for curve in result.curves:
        assert np.isfinite(curve.estimates[:, -1]).all(), curve.method


# ---- the network ---------------------------------------------------------------------------------------------

SMALL = NetSettings(width=32, embedding=8, learning_rate=1e-2, updates=300, batch=256, next_actions=8)


def test_network_learns_a_table() -> None:
    """Deterministic (own random numbers, single small network): within 0.1 of dynamic programming, value spread ≈ 1."""
    pytest.importorskip("torch")
    mdp = small_mdp(11, horizon=3)
    assert fitted_q_network(mdp.population(), mdp.policy, SMALL) == pytest.approx(mdp.value(), abs=0.1)


@pytest.mark.parametrize("name", ["cartpole", "cartpole-continuous"])
def test_network_runs_on_vectors(name: str) -> None:
    """Within the possible range, which a diverging fit would leave."""
    pytest.importorskip("torch")
    domain = get_domain(name)
    policy = domain.policy()
    driver = Driver(policy, OnPolicy(), (4,), gamma=domain.gamma, horizon=domain.horizon, record_steps=True)
    data = driver.run(domain.trial_environment((4,)), episodes=20)
    quick = dataclasses.replace(SMALL, updates=100)
    value = fitted_q_network(data, policy, quick)
    assert 5 < value < 60
    assert value == fitted_q_network(data, policy, quick)


def test_network_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(SpecError, match=r"evenroll\[torch\]"):
        fitted_q_network(small_mdp(1).population(), POLICY)


def test_compare_reports_weights_where_there_are_any() -> None:
    plain, weighted_, on_policy = compare("gridworld", ["os/mc", "ros/wis", "os/wis"], trials=3, budget=32).curves
    assert plain.effective_sample_size is None
    assert weighted_.effective_sample_size is not None
    assert weighted_.largest_weight is not None
    assert on_policy.effective_sample_size is not None
    ess, largest = weighted_.effective_sample_size, weighted_.largest_weight
    finished = ~np.isnan(ess)
    assert (ess[finished] * largest[finished] >= 1.0 - 1e-9).all()  # n equal weights: n · 1/n; unequal ones: more
    assert weighted_.to_json()["effective_sample_size"][-1] < on_policy.to_json()["effective_sample_size"][-1]
