"""The action part of a network: its scores, and which mean of the folds is taken."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from evenroll.domains.catalogue import get_domain
from evenroll.estimators import network_action_part
from evenroll.estimators.corrections import best_way, corrections
from evenroll.estimators.score_regression import action_parts
from evenroll.policies import MLP
from tests.helpers import trial


def small_network(outputs=2, gaussian=False):
    rng = np.random.default_rng(5)
    shape = ((8, 4), (outputs, 8))
    head = {"head": "gaussian"} if gaussian else {}
    first, last = (rng.normal(size=s) / 2 for s in shape)
    return MLP([(first, np.zeros(8))], last, np.zeros(outputs), dtype=np.float64, **head)


def test_head_scores_are_the_gradient_of_the_last_layer():
    policy = small_network()
    data = trial("cartpole", episodes=5, policy=policy)
    scores = policy.distribution.scores(policy.outputs_of_features(policy.features(data.observations)), data.actions)
    psi, start = policy.features(data.observations), 0
    for end in data.ends:
        sums = scores[start:end].T @ psi[start:end]
        gradient = policy.score_sum(data.observations[start:end], data.actions[start:end])
        np.testing.assert_allclose(sums[:, :8].ravel(), gradient[-18:-2], atol=1e-8)
        np.testing.assert_allclose(sums[:, 8], gradient[-2:], atol=1e-8)
        start = end


@pytest.mark.statistical
def test_gaussian_scores_have_mean_0_and_variance_1(base_seed):
    """20,000 steps at most, 4.5 standard errors on each of 4 numbers; x = z and (z² − 1)/√2 have E[x⁴] − 1 = 2 and 14.
    P(false) ≤ 5e-5, the last number's skewness included. Catches a scale of z that is 3 % off."""
    policy = small_network(gaussian=True)
    data = trial("cartpole-continuous", "os", (base_seed,), episodes=600, policy=policy)
    u = policy.distribution.scores(policy.outputs_of_features(policy.features(data.observations)), data.actions)[:20_000]
    assert len(u) > 5000
    assert np.abs(u.mean(axis=0)).max() < 4.5 / np.sqrt(len(u))
    assert (np.abs((u**2).mean(axis=0) - 1) < 4.5 * np.sqrt(np.array([2, 14]) / len(u))).all()


@pytest.mark.statistical
def test_balanced_scores_take_the_mean_of_all_folds_together(base_seed):
    """Means over 8 runs of 200 episodes (20 means of 6 measured). Looseness: 1.07 ± 0.09 on-policy, 0.17 ± 0.03 with auto.
    Cross-fitting leans on balanced data, by +0.86 ± 0.165 against all folds together. P(false) ≤ 1e-6: 0.6 is 5.2, no lean
    5.2 standard deviations off. Catches a mean of the wrong folds: the other one is 0.5 (os) and 0.7 (auto) away."""

    policy = get_domain("cartpole-continuous").policy()

    def parts(sampler):
        runs = [trial("cartpole-continuous", sampler, (base_seed + i,), episodes=200) for i in range(8)]
        found = [action_parts(data, policy)[0] for data in runs]
        made = [corrections(data.returns, [p]) for data, p in zip(runs, found, strict=True)]
        ways = [best_way(data.returns, p.apart) for data, p in zip(runs, found, strict=True)]
        together = [slope * p.together(way) for p, (way, slope) in zip(found, ways, strict=True)]
        columns = ([p.loose for p in found], [m.actions.mean() for m in made], together)
        return *(float(np.mean(c)) for c in columns), float(np.mean([m.by_actions for m in made]))

    loose, apart, together, used = parts("os")
    assert loose > 0.6
    assert abs(used - apart) < abs(used - together)
    loose, apart, together, used = parts("auto")
    assert loose < 0.6
    assert apart > together
    assert abs(used - together) < abs(used - apart)


def test_further_features_enter_where_steps_are_plenty(monkeypatch):
    """Then there is a second part, what all features explain beyond the policy's own. Here it explains the rest of a return
    that depends on the action times the position, which a policy with a single dead feature of its own does not know."""
    rng = np.random.default_rng(0)
    policy = MLP([(np.zeros((1, 4)), np.ones(1))], np.zeros((2, 1)), np.zeros(2))  # its last layer is constant
    data = trial("cartpole", "os", (1,), episodes=60, policy=policy)
    actions, place = data.column("actions")[:, 0], data.column("observations")[:, 0]
    rewards = np.where(actions == 1, 1.0, -1.0) * place / place.std() + 1e-3 * rng.normal(size=len(place))
    owner = np.repeat(np.arange(data.episodes), data.lengths)
    returns = np.bincount(owner, rewards[: len(owner)])
    data = replace(data, rewards=rewards, returns=returns, gamma=1.0)
    assert len(action_parts(data, policy)) == 1
    monkeypatch.setattr(network_action_part, "PLENTY", 1)
    own, further = action_parts(data, policy)
    alone, both = corrections(returns, [own]), corrections(returns, [own, further])
    assert both.left(returns).var() < 0.3 * returns.var() < 0.5 * alone.left(returns).var()


def test_of_very_many_steps_the_first_teach(monkeypatch):
    """Episodes behind those that teach are corrected with what all of these teach, whether they are seen in one chunk or in
    many; the sum of all scores is that of all steps, so that the mean is corrected as it is with an Â from everything."""
    policy, data = get_domain("cartpole").policy(), trial("cartpole", "auto", (3,), episodes=300)
    whole = action_parts(data, policy)[0]
    monkeypatch.setattr(network_action_part, "PLENTY", 20)
    monkeypatch.setattr(network_action_part, "ENOUGH", int(data.ends[199]))
    own, further = action_parts(data, policy)
    monkeypatch.setattr(network_action_part, "CHUNK", 100)
    for part, again in zip((own, further), action_parts(data, policy), strict=True):
        np.testing.assert_allclose(part.apart, again.apart, rtol=1e-3, atol=1e-3)
        assert part.apart.shape == (300, 16)
    # The first 200 know nothing of the others, and the others know all of the first.
    first = data.prefix(int(data.ends[199]))
    alone, alone_further = action_parts(first, policy)
    np.testing.assert_allclose(own.apart[:200], alone.apart, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(further.apart[:200], alone_further.apart, rtol=1e-4, atol=1e-4)
    for way in (3, 7):
        weights_of_all = alone.together(way) * 200 + own.apart[200:, way].sum()
        assert own.together(way) * 300 == pytest.approx(weights_of_all, rel=1e-3, abs=1e-2)
    assert own.loose == pytest.approx(whole.loose, abs=0.05)
    assert best_way(data.returns[200:], own.apart[200:])[1] > 0.5  # and what they learnt is of use
