"""The paper's theory on data: what Proposition 1, Lemma 1 and Theorems 1 – 3 say, beside what happens."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from evenroll.collection.rollouts import Rollouts
from evenroll.collection.trial import Driver
from evenroll.domains.environment import Environment
from evenroll.domains.tabular import tabular_environment
from evenroll.estimators.monte_carlo import monte_carlo
from evenroll.policies import TabularSoftmax
from evenroll.samplers import ROS, OnPolicy, Sampler
from evenroll.study.theory import count_deviation, frequencies_kl, theorem_3_bounds, visitation

GREEDY = ROS(1e12)  # α → ∞: always the most under-sampled action
SAMPLERS: dict[str, Sampler] = {"os": OnPolicy(), "ros": GREEDY}
ACTIONS = np.array([0.0, 0.7, -0.4, 0.2])  # logits of the state in which Lemma 1 and Theorem 2 are looked at
LAYERS = 4  # time steps of the random MDPs; a choice


@dataclass(frozen=True)
class Laws:
    """What happened, as arrays by sampler: `os`, or `ros` with α → ∞.

    after      [draws]: the expected estimate after this many more draws, for two actions worth 2 and 4, given (a₀, a₀, a₁)
    deviation  [visits]: the largest |count − visits·π| so far, over all trials
    over       the largest count − visits·π of all visits and trials
    kl         [visits]: the mean KL of a state's action frequencies
    slope      the slope of log kl against log visits
    error      [episodes]: the mean over trials of the largest |d_n^t(s) − d_π^t(s)|
    bounds     [trials, 3]: squared error, printed bound and corrected bound on random layered MDPs
    counter_example  the same three numbers of the counter-example to Theorem 3
    """

    draws: np.ndarray
    after: dict[str, np.ndarray]
    visits: np.ndarray
    deviation: dict[str, np.ndarray]
    over: dict[str, float]
    kl: dict[str, np.ndarray]
    slope: dict[str, float]
    episodes: np.ndarray
    error: dict[str, np.ndarray]
    bounds: np.ndarray
    counter_example: tuple[float, float, float]


@functools.cache
def laws(trials: int = 100, seed: int = 0) -> Laws:
    """All of the data. It takes some seconds and depends on nothing but the arguments."""
    visits = 2 ** np.arange(13)
    pi = TabularSoftmax([ACTIONS] * 2)
    deviation, over, kl, slope = {}, {}, {}, {}
    for name, sampler in SAMPLERS.items():
        taken = [_actions(pi, sampler, (seed, t), int(visits[-1])) for t in range(trials)]
        away = np.array([count_deviation(a, pi.table[0]) for a in taken])
        deviation[name] = np.maximum.accumulate(np.abs(away).max(axis=(0, 2)))[visits - 1]
        over[name] = float(away.max())
        kl[name] = np.mean([frequencies_kl(a, pi.table[0])[visits - 1] for a in taken], axis=0)
        late = visits >= 16
        slope[name] = float(np.polyfit(np.log(visits[late]), np.log(kl[name][late]), 1)[0])
    episodes = 2 ** np.arange(2, 14)
    draws = np.arange(0, 21)
    empirical, even = np.array([[1.0, 0.0], [1.0, 0.0]]), np.full((2, 2), 0.5)
    counter = theorem_3_bounds(empirical, even, 1.0, 1.0)
    return Laws(
        draws=draws,
        after={name: _after(sampler, draws, seed, 5 * trials) for name, sampler in SAMPLERS.items()},
        visits=visits,
        deviation=deviation,
        over=over,
        kl=kl,
        slope=slope,
        episodes=episodes,
        error={name: _visitation_error(sampler, episodes, seed, max(trials // 5, 2)) for name, sampler in SAMPLERS.items()},
        bounds=np.array([_bounds(seed, t) for t in range(trials)]),
        counter_example=((0.0 - 2.0) ** 2, counter.printed, counter.corrected),
    )


def one_step(returns: np.ndarray) -> Environment:
    """An environment of one state and then the end, with a return for each action."""
    n = len(returns)
    P = np.zeros((2, n, 2))
    P[:, :, 1] = 1.0
    return tabular_environment(P, np.stack([returns, np.zeros(n)]), [1.0, 0.0], [0.0, 1.0])


def _actions(policy: TabularSoftmax, sampler: Sampler, seed: tuple[int, ...], visits: int) -> np.ndarray:
    driver = Driver(policy, sampler, seed, gamma=1.0, horizon=1, record_steps=True)
    return driver.run(one_step(np.zeros(policy.table.shape[1])), episodes=visits).column("actions")[:, 0]


def _after(sampler: Sampler, draws: np.ndarray, seed: int, trials: int) -> np.ndarray:
    """The paper's example after Proposition 1. On-policy it is exact (11/4 after one draw), and ROS is run."""
    if sampler.on_policy:
        return np.asarray((2.0 + 2.0 + 4.0 + 3.0 * draws) / (3.0 + draws))
    returns = np.array([2.0, 2.0, 4.0])
    half = np.full(3, np.log(0.5))
    data = Rollouts(
        1.0, 3, returns, np.arange(1, 4), np.ones(3, bool), np.zeros(3), np.zeros((3, 1)), np.array([[0.0], [0.0], [1.0]]),
        returns, half, half,
    )  # fmt: skip

    def run(trial: int) -> np.ndarray:
        policy = TabularSoftmax(np.zeros((2, 2)))
        driver = Driver(policy, sampler, (seed, trial), gamma=1.0, horizon=1, initial=data, record_steps=True)
        got = driver.run(one_step(np.array([2.0, 4.0])), episodes=int(draws[-1])).returns
        return np.asarray((np.cumsum(got) / np.arange(1, len(got) + 1))[draws + 2])

    return np.asarray(np.mean([run(t) for t in range(trials)], axis=0))


def layered_mdp(rng: np.random.Generator, states: int = 3, actions: int = 3) -> tuple[np.ndarray, ...]:
    """A random MDP with time in the state, as transitions, rewards, start, end, logits. The last state is the end."""
    n = LAYERS * states + 1
    P = np.zeros((n, actions, n))
    P[-1, :, -1] = 1.0
    for s in range(n - 1):
        layer = s // states
        if layer + 1 < LAYERS:
            P[s, :, (layer + 1) * states : (layer + 2) * states] = rng.dirichlet(np.ones(states), size=actions)
        else:
            P[s, :, -1] = 1.0
    start, end = np.zeros(n), np.zeros(n)
    start[:states], end[-1] = rng.dirichlet(np.ones(states)), 1.0
    return P, rng.uniform(-1, 1, (n, actions)), start, end, rng.normal(size=(n, actions))


def _visitation_error(sampler: Sampler, episodes: np.ndarray, seed: int, trials: int) -> np.ndarray:
    P, R, start, end, logits = layered_mdp(np.random.default_rng(seed))
    policy, env = TabularSoftmax(logits), tabular_environment(P, R, start, end)
    exact = visitation(P, policy.table, start, LAYERS)

    def run(trial: int) -> list[float]:
        driver = Driver(policy, sampler, (seed, trial), gamma=1.0, horizon=LAYERS, record_steps=True)
        states = driver.run(env, episodes=int(episodes[-1])).column("observations")[:, 0].astype(int).reshape(-1, LAYERS)
        seen = np.cumsum(np.eye(len(start))[states], axis=0)
        return [float(np.abs(seen[n - 1] / n - exact).max()) for n in episodes]

    return np.asarray(np.mean([run(t) for t in range(trials)], axis=0))


def _bounds(seed: int, trial: int) -> tuple[float, float, float]:
    """The squared error on one data set of a random layered MDP, the bound as printed, and the bound that holds."""
    rng = np.random.default_rng((seed, 3, trial))
    P, R, start, end, logits = layered_mdp(rng)
    policy = TabularSoftmax(logits)
    on_policy = visitation(P, policy.table, start, LAYERS)[:, :, None] * policy.table
    value = float((on_policy * R).sum())
    sampler = list(SAMPLERS.values())[trial % 2]
    driver = Driver(policy, sampler, (seed, trial), gamma=1.0, horizon=LAYERS, record_steps=True)
    data = driver.run(tabular_environment(P, R, start, end), episodes=int(2 ** rng.integers(0, 8)))
    cells = (data.column("observations")[:, 0] * R.shape[1] + data.column("actions")[:, 0]).astype(int).reshape(-1, LAYERS)
    seen = np.stack([np.bincount(cells[:, t], minlength=R.size) / len(cells) for t in range(LAYERS)])
    bounds = theorem_3_bounds(seen, on_policy.reshape(LAYERS, -1), 1.0, float(np.abs(R).max()))
    return (value - monte_carlo(data)) ** 2, bounds.printed, bounds.corrected
