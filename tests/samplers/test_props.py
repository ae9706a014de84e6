"""PROPS: its objective by finite differences, its limits."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats

from evenroll.domains.catalogue import DOMAINS
from evenroll.domains.tabular import tabular_environment
from evenroll.policies import TabularSoftmax
from evenroll.samplers import OnPolicy
from evenroll.samplers.props import PROPS
from tests.helpers import linear_policy, same_data, trial


@pytest.mark.parametrize("name", DOMAINS)
def test_props_without_learning_is_on_policy_bit_for_bit(name: str) -> None:
    same_data(trial(name, OnPolicy(), steps=2000), trial(name, PROPS(learning_rate=0.0), steps=2000))


@pytest.mark.parametrize(("name", "head"), [("cartpole", "softmax"), ("cartpole-continuous", "gaussian")])
def test_props_follows_its_objective(name: str, head: str, base_seed: int) -> None:
    """Adam steps on E[max(r, clip r)] + λ KL, with finite differences for gradients, give the same behaviour: three fits one
    after the other, each from θ, with new moments, on the last 100 steps."""
    policy = linear_policy(head, np.random.default_rng(base_seed))
    rate, clip, penalty, every, buffer = 0.1, 0.3, 0.7, 40, 100
    sampler = PROPS(rate, clip, penalty, 10.0, every=every, buffer=buffer, epochs=2, batch=20)
    data = trial(name, sampler, policy=policy, steps=4 * every - 1)
    np.testing.assert_array_equal(data.log_b[:every], data.log_e[:every])

    def log_probs_and_kl(theta, rows):
        def distribution(at):
            out = data.observations[rows] @ at.head_weight.T + at.head_bias
            return (np.tanh(out[:, 0]), np.logaddexp(0, out[:, 1])) if head == "gaussian" else special.softmax(out, axis=1)

        phi, at_theta, actions = distribution(policy.with_theta(theta)), distribution(policy), data.actions[rows, 0]
        if head == "gaussian":
            (mp, sp), (m, s) = phi, at_theta
            return stats.norm.logpdf(actions, mp, sp), np.log(s / sp) + (sp**2 + (mp - m) ** 2) / (2 * s**2) - 0.5
        return np.log(phi[np.arange(len(phi)), actions.astype(int)]), (phi * np.log(phi / at_theta)).sum(axis=1)

    def loss(theta, rows):
        log_p, kl = log_probs_and_kl(theta, rows)
        r = np.exp(log_p - data.log_e[rows])
        return np.mean(np.maximum(r, np.clip(r, 1 - clip, 1 + clip))) + penalty * np.mean(kl)

    for now in (every, 2 * every, 3 * every):
        phi, mean, square = policy.theta.copy(), 0.0, 0.0
        places = np.arange(now)[-buffer:]
        places = places[np.argsort(places % buffer)]  # a ring: step k lies at place k mod buffer
        batches = -(-len(places) // 20)
        for step in range(1, 2 * batches + 1):
            rows = places[(step - 1) % batches :: batches]
            gradient = np.array(
                [(loss(phi + e, rows) - loss(phi - e, rows)) / 2e-5 for e in 1e-5 * np.eye(len(phi))]
            )  # fmt: skip
            mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
            phi = phi - rate * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)
        fitted = policy.with_theta(phi)
        for t in range(now, now + every - 1):
            assert fitted.log_prob(data.observations[t], data.actions[t]) == pytest.approx(data.log_b[t], abs=1e-4)
        assert np.abs(data.log_b - data.log_e)[now : now + every].max() > 0.02


def test_props_makes_under_sampled_actions_likelier_and_stops_in_time() -> None:
    policy = TabularSoftmax(np.zeros((1, 2)))
    env = tabular_environment(np.ones((1, 2, 1)), np.zeros((1, 2)), [1.0], [1.0])
    sampler = PROPS(0.05, every=50, buffer=50, epochs=20, max_divergence=0.01)
    for seed in range(10):
        data = trial("bandit", sampler, policy=policy, env=env, seed=(seed,), steps=51)
        share = data.actions[:50, 0].mean()
        p_one = np.exp(data.log_b[50]) if data.actions[50, 0] == 1 else 1 - np.exp(data.log_b[50])
        if share != 0.5:
            assert (p_one < 0.5) == (share > 0.5)
        r = np.where(data.actions[:50, 0] == 1, p_one, 1 - p_one) / 0.5
        assert np.mean(r - 1 - np.log(r)) < 0.02  # at most one Adam step beyond δ
