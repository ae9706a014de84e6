"""Whether the guard calls off samplers that run away, and no others: how far from balance data is, and how far it is off.

    python -m tools.guard

For each place, sampler and number of episodes: the *excess* (estimators/imbalance.py) of on-policy data and of the
sampler's, the mean over the runs ± the standard deviation of a run; the squared error of the plain mean, relative to that of
on-policy sampling in theory, Var/n; the mean KL(π_b ‖ π_e) of a step in nats; and in how many runs the guard raises the
alarm. Then the same KL for an episode, over 1,024 episodes, which is what studies count by.

CliffWalking-v1 and Taxi-v4 are Gymnasium's tables with γ = 0.99 and at most 200 steps, their policies ε-greedy around the
best one. A random table has 6 states, 3 actions, 10 steps, and a random policy.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

import gymnasium as gym
import numpy as np

from evenroll import Domain, Policy, TabularSoftmax, tabular_domain
from evenroll.collection.trial import Driver
from evenroll.domains.catalogue import DOMAINS, get_domain
from evenroll.engine.blas import single_threaded_blas
from evenroll.estimators.imbalance import imbalance
from evenroll.policies import epsilon_greedy
from evenroll.samplers.table import get_sampler
from evenroll.study.true_value import truth

ROWS = (  # place (environment, ε, or the seed of a random table), sampler, episodes
    ("cartpole", "auto", 200), ("gridworld", "auto", 200), ("CliffWalking-v1 0.3", "auto", 100),
    ("CliffWalking-v1 0.05", "auto", 100), ("Taxi-v4 0.3", "auto", 400), ("random 1", "auto", 100),
    ("random 2", "auto", 100), ("random 3", "auto", 100), ("cartpole", "ros:alpha=100", 30),
    ("cartpole", "ros:alpha=100", 200), ("cartpole", "ros:alpha=1000", 30), ("gridworld", "ros:alpha=100000", 30),
)  # fmt: skip
GAMMA, HORIZON = 0.99, 200
STUDIES = (*((domain, sampler) for sampler in ("ros", "auto") for domain in DOMAINS), ("cartpole", "ros:alpha=1000"))


def place(name: str) -> tuple[Domain, Policy]:
    if name in DOMAINS:
        domain = get_domain(name)
        return domain, domain.policy()
    kind, _, number = name.partition(" ")
    if kind == "random":
        rng = np.random.default_rng(int(number))
        start, P, R = rng.dirichlet(np.ones(6)), rng.dirichlet(np.ones(6), (6, 3)), rng.normal(size=(6, 3))
        return tabular_domain(kind, P, R, start, horizon=10), TabularSoftmax(rng.normal(size=(6, 3)))
    return gymnasium_table(kind, float(number))


def gymnasium_table(name: str, epsilon: float) -> tuple[Domain, Policy]:
    """An environment that carries its tables, with one more state in which all its episodes end."""
    env = gym.make(name).unwrapped
    states, actions = env.observation_space.n, env.action_space.n  # type: ignore[attr-defined]
    P, R = np.zeros((states + 1, actions, states + 1)), np.zeros((states + 1, actions))
    P[states, :, states] = 1.0
    for s in range(states):
        for a in range(actions):
            for chance, later, reward, over in env.P[s][a]:  # type: ignore[attr-defined]
                P[s, a, states if over else later] += chance
                R[s, a] += chance * reward
    start, terminal = np.append(env.initial_state_distrib, 0.0), np.arange(states + 1) == states  # type: ignore[attr-defined]
    Q = np.zeros((states + 1, actions))
    for _ in range(HORIZON):
        Q = R + GAMMA * P @ np.where(terminal, 0.0, Q.max(axis=1))
    domain = tabular_domain(name, P, R, start, terminal, gamma=GAMMA, horizon=HORIZON)
    return domain, epsilon_greedy(Q.argmax(axis=1), actions, epsilon)


def runs(
    domain: Domain, policy: Policy, sampler: str, episodes: int, count: int
) -> Iterator[tuple[float, float, float, bool]]:
    """(excess, mean return, nats a step, alarm) of each run."""
    for seed in range(count):
        chosen = get_sampler(sampler, domain.paper)
        driver = Driver(policy, chosen, (seed,), gamma=domain.gamma, horizon=domain.horizon, record_steps=True)
        data = driver.run(domain.environment(None), episodes=episodes)
        found = imbalance(data, policy)
        yield found.excess, float(data.returns.mean()), driver.divergence.kl, found.more_than_chance


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    given = parser.parse_args(words)
    with single_threaded_blas():
        for name, sampler, episodes in ROWS:
            domain, policy = place(name)
            known = truth(domain, policy)
            by_chance = np.array([x[0] for x in runs(domain, policy, "os", episodes, given.runs)])
            excess, values, nats, alarms = np.array(list(runs(domain, policy, sampler, episodes, given.runs))).T
            off = (values - known.value) ** 2 * episodes / known.variance
            print(
                f"{name}, {sampler}, {episodes} episodes: "
                f"on-policy excess {by_chance.mean():.2f} ± {by_chance.std(ddof=1):.2f}, "
                f"excess {excess.mean():.3g} ± {excess.std(ddof=1):.2g}, squared error {off.mean():.3g} "
                f"± {off.std(ddof=1) / given.runs**0.5:.2g}, {nats.mean():.2g} nats a step, "
                f"alarms {int(alarms.sum())} of {given.runs}",
                flush=True,
            )
        for name, sampler in STUDIES:
            domain = get_domain(name)
            driver = Driver(
                domain.policy(), get_sampler(sampler, domain.paper), (0,), gamma=domain.gamma, horizon=domain.horizon
            )
            value = float(driver.run(domain.environment(None), episodes=1024).returns.mean())
            away = driver.divergence
            print(
                f"{name}, {sampler}, 1,024 episodes: {away.kl_per_episode:.2g} nats an episode, {away.kl:.2g} a step, "
                f"value {value / truth(domain, domain.policy()).value - 1:+.1%}",
                flush=True,
            )


if __name__ == "__main__":
    main()
