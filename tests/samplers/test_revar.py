"""ReVar: its closed form on the bandit, and nothing to gain without noise."""

from __future__ import annotations

import numpy as np
import pytest

from evenroll.domains.catalogue import get_domain
from evenroll.samplers import OnPolicy
from evenroll.samplers.revar import ReVar
from evenroll.samplers.tabular_model import PRIOR
from tests.helpers import same_data, trial


@pytest.mark.statistical
def test_revar_on_the_bandit_is_its_closed_form(base_seed: int) -> None:
    """b ∝ π σ once σ is known: after 30,000 pulls Σ π² σ²/b is 1.0012 ± 0.0002 of (Σ π σ)², the least possible (40 runs).
    P(false) ≤ 1e-6 at 1.01. Catches a design of other moments: any that costs 1 %."""
    domain = get_domain("bandit")
    policy, env = domain.policy(), domain.environment(None)
    scales, pi = env.params[31:], policy.table[0]
    data = trial("bandit", ReVar(mix=0.0), seed=(base_seed,), steps=30_000)
    actions = data.actions[-4000:, 0].astype(int)
    b = np.full(30, np.nan)
    b[actions] = np.exp(data.log_b[-4000:])
    seen = np.isfinite(b)  # an arm of hardly any noise is hardly ever pulled
    achieved, best = (pi**2 * scales**2 / b)[seen].sum(), (pi[seen] @ scales[seen]) ** 2
    assert scales[~seen].max(initial=0.0) < 0.1
    assert achieved < 1.01 * best < pi @ scales**2


def model_by_hand(data, policy, episodes: int, gamma: float) -> tuple[np.ndarray, np.ndarray]:
    """(x(s, a), visits) from the first episodes: σ² of each cell, and what later states add to it, as revar.py says."""
    pi, states = policy.table, policy.table.shape[0]
    end = data.ends[episodes - 1]
    s, a, r = data.observations[:end, 0].astype(int), data.actions[:end, 0].astype(int), data.rewards[:end]
    last = np.isin(np.arange(end), data.ends - 1)
    visits, biased, follow = np.zeros(pi.shape), np.zeros(pi.shape), np.zeros((*pi.shape, states))
    for i in range(end):
        visits[s[i], a[i]] += 1
        if not last[i]:
            follow[s[i], a[i], s[i + 1]] += 1
    for cell in zip(*np.nonzero(visits), strict=True):
        biased[cell] = r[(s == cell[0]) & (a == cell[1])].var()
    several = visits > 1
    pooled = (visits * biased)[several].sum() / (visits - 1)[several].sum()
    n = np.maximum(visits, 1)
    sigma2 = np.where(several, biased * n / np.maximum(n - 1, 1), pooled) * (1 + 1 / np.sqrt(n)) ** 2
    known, squared, x = (pi * (visits > 0)).sum(1), np.zeros(states), np.zeros(pi.shape)
    for _ in range(500):
        x = np.where(visits > 0, sigma2 + gamma**2 * (follow @ squared) / n, 0.0)
        squared = ((pi * np.sqrt(x)).sum(1) / np.maximum(known, 1e-300)) ** 2
    return x, visits


@pytest.mark.parametrize(("name", "gamma", "first"), [("bandit", 1.0, 60), ("gridworld:noise=2", 0.9, 7)])
def test_the_first_designs_by_hand(name: str, gamma: float, first: int) -> None:
    """Few visits, so that every correction counts: some cells were seen once, others never. Then the next design, too."""
    domain = get_domain(name)
    policy, again = domain.policy(), int(np.ceil(1.25 * first))
    data = trial(name, ReVar(first=first, mix=0.05), policy=policy, gamma=gamma, episodes=again + 2)
    np.testing.assert_allclose(data.log_b[: data.ends[first - 1]], data.log_e[: data.ends[first - 1]], atol=1e-12)
    for fit, until in ((first, again), (again, again + 2)):
        x, visits = model_by_hand(data, policy, fit, gamma)
        assert (visits == 1).any()
        pi = policy.table
        average = (pi * x * (visits > 0)).sum(1) / np.maximum((pi * (visits > 0)).sum(1), 1e-300)
        b = pi * np.sqrt((visits * x + PRIOR * average[:, None]) / (visits + PRIOR))
        total = b.sum(1, keepdims=True)
        b = np.where(total > 0, 0.95 * b / np.maximum(total, 1e-300) + 0.05 * pi, pi)
        for t in range(data.ends[fit - 1], data.ends[until - 1]):
            cell = int(data.observations[t, 0]), int(data.actions[t, 0])
            assert data.log_b[t] == pytest.approx(np.log(b[cell]), abs=1e-6)


def test_revar_has_nothing_to_gain_from_rewards_without_noise() -> None:
    data = trial("gridworld", ReVar(), steps=3000)
    same_data(data, trial("gridworld", OnPolicy(), steps=3000))
    np.testing.assert_allclose(data.log_b, data.log_e, atol=1e-12)
