"""Estimators against exact values: random small MDPs in which every trajectory can be listed."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenroll.collection.trial import Driver
from evenroll.domains.catalogue import get_domain
from evenroll.errors import NoEstimate
from evenroll.estimators.doubly_robust import doubly_robust, weighted_doubly_robust
from evenroll.estimators.table import ESTIMATORS
from evenroll.samplers import OffPolicy, OnPolicy
from evenroll.study import initial_data
from tests.helpers import QUICK_ESTIMATORS
from tests.small_mdps import SmallMDP, random_q, small_mdp


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


@pytest.mark.statistical
@pytest.mark.parametrize("spec", ["init+os", "off:delta=0.3"])
def test_all_converge_on_gridworld(spec: str, base_seed: int) -> None:
    """12,000 episodes, value 4.39. ois and pdis lie within 6 standard errors of their terms, wis within 6 of the weighted
    deviations. So do ris and wris, which have less variance, where one policy made the data. A mixture of two is no policy:
    there they are off by 0.26 and 0.20 however much data there is, and 0.28 more is allowed. What is fitted to a
    deterministic domain is exact once all actions have been taken; the rarest is expected 135 times or more.
    P(false) ≤ 1e-5: weights have heavy tails, and 6 standard errors of a normal number would be 1e-8.
    Catches a bias of 0.2 (wis), 0.4 (ois), 0.6 (pdis) or 1e-8 (fqe, dr, wdr, score)."""
    domain = get_domain("gridworld")
    policy = domain.policy()
    env, init = domain.trial_environment((base_seed,)), None
    sampler = OnPolicy() if spec == "init+os" else OffPolicy(0.3)
    if spec == "init+os":
        init = initial_data(domain, policy, (base_seed,), episodes=3000, delta=0.3)
    driver = Driver(policy, sampler, (base_seed,), gamma=1.0, horizon=100, initial=init, record_steps=True)
    data = driver.run(env, episodes=9000 if init else 12_000)
    known = domain.known_truth(policy)
    assert known is not None
    starts, log_ratio = data.ends - data.lengths, data.column("log_e") - data.column("log_b")
    before = np.repeat((np.cumsum(log_ratio) - log_ratio)[starts], data.lengths)  # Σ log π_e/π_b of earlier trajectories
    weights = np.exp(data.column("log_weights"))

    def error(terms: np.ndarray) -> float:
        return float(terms.std() / np.sqrt(data.episodes))

    spread = error(weights * (data.returns - known.value))
    within = dict.fromkeys(("fqe", "dr", "wdr", "score"), 1e-8) | dict.fromkeys(("wis", "wis+mc"), 6 * spread)
    within |= dict.fromkeys(("ris", "wris"), 6 * spread + (0.28 if init else 0.0))
    within["ois"] = 6 * error(weights * data.returns)
    within["pdis"] = 6 * error(np.add.reduceat(np.exp(np.cumsum(log_ratio) - before) * data.column("rewards"), starts))
    assert within.keys() | {"mc"} == set(QUICK_ESTIMATORS)
    assert spread < 0.035
    for name in within.keys() - (set() if init else {"wis+mc"}):
        assert ESTIMATORS[name](data, policy) == pytest.approx(known.value, abs=within[name]), name


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
