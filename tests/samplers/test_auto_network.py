"""`auto` on networks: scores end up balanced, and the gain follows its schedule."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special, stats

from evenroll.collection.lanes import SOUND, Lanes
from evenroll.domains.catalogue import get_domain
from evenroll.policies import MLP
from evenroll.policies.heads import LEAST_RATIO
from evenroll.samplers import Auto, OnPolicy, Sampler
from evenroll.samplers.auto_network import ECHO, EVERY_STEP, STRIDE, at_once, gain
from tests.helpers import trial


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["cartpole", "cartpole-continuous"])
def test_discounted_scores_of_a_network_stay_balanced(name: str, base_seed: int) -> None:
    """Sᵀ K⁻¹ S / D is χ² with D = 65 degrees over D on-policy, and 1/(2ck), a few hundredths, under `auto` once k > D² (38
    runs: 0.03 ± 0.009). P(false) ≤ 1e-6: the mean of three on-policy runs is below 0.5 with 5e-10, and 0.15 is 13 standard
    deviations off.
    Catches scores that are no more balanced than on-policy, and a K that does not belong to them."""
    domain = get_domain(name)
    policy = domain.policy()
    assert isinstance(policy, MLP)

    def imbalance(sampler: Sampler, run: int = 0) -> float:
        data = trial(name, sampler, (base_seed, run), episodes=512)
        t = np.arange(data.ends[-1]) - np.repeat(data.ends - data.lengths, data.lengths)
        features = policy.features(data.column("observations"))
        psi, h = domain.gamma ** t[:, None] * features, features[:, :-1]
        out = h @ policy.head_weight.T + policy.head_bias
        if policy.n_actions is not None:
            p = np.exp(out[:, 0] - np.logaddexp(out[:, 0], out[:, 1]))
            x, weight = (data.column("actions")[:, 0] == 0) - p, p * (1 - p)
        else:
            x, weight = (data.column("actions")[:, 0] - np.tanh(out[:, 0])) / np.logaddexp(0.0, out[:, 1]), np.ones(len(h))
        S, K = psi.T @ x, (psi * weight[:, None]).T @ psi
        return float(S @ np.linalg.solve(K + 1e-6 * np.trace(K) / len(K) * np.eye(len(K)), S) / len(K))

    assert imbalance(Auto()) < 0.15
    assert np.mean([imbalance(OnPolicy(), run) for run in range(3)]) > 0.5


@pytest.mark.statistical
def test_several_dimensions_step_by_step(base_seed: int) -> None:
    """A policy no built-in domain has: three real actions, own scales, tanh features; scores end up balanced.
    Sᵀ K⁻¹ S over its 54 directions: 0.10 ± 0.035 each (20 runs, 0.05 … 0.19). P(false) ≤ 1e-5: 0.4 is 8 standard
    deviations off, 4.2 on a logarithmic scale. Catches on-policy scores: 1 each, below 0.4 with probability 2.4e-5."""
    rng = np.random.default_rng(1)
    policy = MLP(
        [(rng.normal(size=(8, 2)), np.zeros(8))], rng.normal(size=(3, 8)), np.zeros(3), activation="tanh",
        head="gaussian", mean="identity", scale="log_std", log_std=np.array([0.0, -1.0, 1.0]),
    )  # fmt: skip
    lanes = Lanes(policy, Auto(), (base_seed,), gamma=1.0)
    S, K = np.zeros((9, 6)), np.zeros((9, 9))
    for k, obs in enumerate(np.random.default_rng(base_seed).normal(size=(5000, 2))):
        assert lanes.advance(obs[None], np.ones(1, np.int64)) == SOUND
        action = lanes.actions[0].copy()
        psi = policy.features(obs[None])[0]
        z = (action - psi[:-1] @ policy.head_weight.T) / np.exp(policy.log_std)
        S += np.outer(psi, np.concatenate([z, (z * z - 1) / math.sqrt(2)]))  # of mean 0 and variance 1 on-policy
        K += np.outer(psi, psi)
        if k % 50 == 49:
            lanes.end(0)
    assert (S * np.linalg.solve(K, S)).sum() / S.size < 0.4


def test_the_gain_of_a_network_follows_its_schedule() -> None:
    """κ = c·D: less until K is known, then ½, √(D/k), 16 D/k; and never more than 5 nats an episode, T·κ/4."""
    D = 65.0
    kappa = [D * gain(D, steps * D, 10.0) for steps in (0.375, 1.0, 4.0, 16.0, 256.0, 1024.0)]
    assert kappa == pytest.approx([0.125, 0.5, 0.5, 0.25, 0.0625, 0.015625])
    for length in (100.0, 1000.0):
        assert D * gain(D, 2 * D, length) * length / 4 == pytest.approx(5.0)
        assert gain(D, 4000 * D, length) == pytest.approx(16.0 / (4000 * D))


def test_luck_counts_at_once_while_episodes_are_few() -> None:
    """n episodes of 9 steps have a mean time of 4: nearly all of a step's luck counts at once at first, half of it after
    175 episodes, and next to nothing after thousands."""
    shares = [at_once(9.0 * n, 4.0 * 9.0 * n) for n in (1.0, 175.0, 350.0, 17_500.0)]
    assert shares == pytest.approx([1.0 / (1.0 + 175.0**-2), 0.5, 0.2, 1e-4], rel=1e-3)


@pytest.mark.parametrize("name", ["cartpole", "cartpole:actions=3", "cartpole-continuous"])
def test_a_network_is_tilted_by_its_definition(name: str) -> None:
    """π_b recomputed step by step: τ = c ψᵀβ, where β = (K/k)⁻¹ S is solved anew whenever k has grown by a third or a
    trajectory has ended, and follows S in between. S counts the draws of ended trajectories, what was expected of the
    running one, and a share of its luck. A linear policy, whose ψ is the observation and 1, in double precision."""
    rng, gamma, steps = np.random.default_rng(3), 0.9, 400
    real, actions = name.endswith("continuous"), 3 if name.endswith("3") else 2
    policy = MLP([], rng.normal(size=(actions, 4)), rng.normal(size=actions), head="gaussian" if real else "softmax",
                 dtype=np.float64)  # fmt: skip
    data = trial(name, Auto(), policy=policy, gamma=gamma, steps=steps)
    kinds = 2 if real else actions - 1  # scores that are free to vary
    first, times = np.concatenate([[0], data.ends]), 0.0
    S, beta, K, P, next_fit = np.zeros((kinds, 5)), np.zeros((kinds, 5)), np.zeros((5, 5)), np.zeros((5, 5)), 8
    surprise = np.zeros((kinds, 5))
    for k in range(steps):
        t = k - first[first <= k].max()
        out, psi = policy.outputs(data.observations[k]), gamma**t * np.append(data.observations[k], 1.0)
        by = gain(5.0 * kinds, k + 1.0, 2.0 * times / (k + 1.0) + 1.0) * beta @ psi
        if real:
            scale = np.logaddexp(0.0, out[1])
            z = (data.actions[k, 0] - np.tanh(out[0])) / scale
            mean = np.clip(-by[0], -1.0, 1.0)
            deviation = np.sqrt(np.clip(1.0 - math.sqrt(2.0) * by[1] - mean**2, 0.25, 2.0))
            log_b = stats.norm.logpdf(z, mean, deviation) - np.log(scale)
            x, spread = np.array([z, (z * z - 1.0) / math.sqrt(2.0)]), 1.0
            expected = np.array([mean, (deviation**2 + mean**2 - 1.0) / math.sqrt(2.0)])
        else:
            pi, a = special.softmax(out), int(data.actions[k, 0])
            by = np.append(by, -by.sum())
            b = pi * np.maximum(1.0 - (by - pi @ by), LEAST_RATIO)
            log_b = np.log(b[a] / b.sum())
            x, spread = (np.eye(actions)[a] - pi)[:-1], (1.0 - pi @ pi) / (actions - 1)  # the variance of a free score
            expected = (b / b.sum() - pi)[:-1]
        assert data.log_b[k] == pytest.approx(log_b, abs=1e-7)
        episodes = (k + 1) ** 2 / (2.0 * times + k + 1)
        now = expected + (x - expected) / (1.0 + (episodes / ECHO) ** 2)
        S, beta = S + np.outer(now, psi), beta + np.outer(now, P @ psi)
        surprise += np.outer(x - now, psi)
        if k + 1 <= EVERY_STEP * 5:
            K += spread * np.outer(psi, psi)
        elif (k + 1) % STRIDE == 0:
            K += STRIDE * spread * np.outer(psi, psi)
        if k + 1 >= next_fit:
            next_fit = math.ceil((k + 1) * 4 / 3)
            P = np.linalg.inv((K + np.trace(K) / (5 * (k + 1)) * np.eye(5)) / (k + 1))
            beta = S @ P
        if k + 1 in data.ends:
            S, surprise = S + surprise, np.zeros((kinds, 5))
            beta = S @ P
        times += t
    assert np.abs(data.log_b - data.log_e).max() > 0.05
