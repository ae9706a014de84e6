"""The theory on data: what is computed is what the words say, by hand where that can be done."""

from __future__ import annotations

import numpy as np
import pytest

from evenroll.domains.tabular import backward_induction
from evenroll.policies import TabularSoftmax
from evenroll.study.laws import ACTIONS, LAYERS, Laws, laws, layered_mdp, one_step


@pytest.fixture(scope="module")
def found() -> Laws:
    return laws(trials=6, seed=3)


def test_the_example_after_proposition_1(found: Laws) -> None:
    """(2 + 2 + 4 + 3 m)/(3 + m) on-policy. The under-sampled action makes it 3 whenever both were drawn equally often."""
    assert found.draws.tolist() == list(range(21))
    np.testing.assert_allclose(found.after["os"], [(8 + 3 * m) / (3 + m) for m in range(21)])
    np.testing.assert_allclose(found.after["ros"][0], 8 / 3)
    np.testing.assert_allclose(found.after["ros"][1::2], 3.0)
    for m in range(2, 21, 2):  # one draw more than pairs: it was a₀ or a₁
        assert abs(found.after["ros"][m] - 3.0) <= 1.0 / (3 + m) + 1e-12


def test_counts_and_frequencies_of_a_state(found: Laws) -> None:
    pi = np.exp(ACTIONS) / np.exp(ACTIONS).sum()
    assert found.visits.tolist() == [2**i for i in range(13)]
    for name in ("os", "ros"):
        assert found.deviation[name].shape == found.kl[name].shape == (13,)
        assert (np.diff(found.deviation[name]) >= 0.0).all()  # the largest so far
        assert 1.0 - pi.max() - 1e-9 <= found.deviation[name][0] <= 1.0 - pi.min() + 1e-9
        assert -np.log(pi.max()) - 1e-9 <= found.kl[name][0] <= -np.log(pi.min()) + 1e-9
        late = slice(4, None)
        slope = np.polyfit(np.log(found.visits[late]), np.log(found.kl[name][late]), 1)[0]
        assert found.slope[name] == pytest.approx(slope)
    assert found.deviation["ros"][-1] <= 3.0
    assert found.over["ros"] <= 1.0 + 1e-6
    assert 25.0 < found.deviation["os"][-1] < 250.0  # a standard deviation is 28 at the last visit
    assert 20.0 < found.over["os"] <= found.deviation["os"][-1]
    # n · KL is χ²/2 with three degrees of freedom, 1.5 on average, on-policy
    assert 0.3 < found.kl["os"][-1] * 4096 < 5.0


def test_visits_of_states_converge(found: Laws) -> None:
    assert found.episodes.tolist() == [2**i for i in range(2, 14)]
    for name in ("os", "ros"):
        assert found.error[name].shape == (12,)
        scaled = found.error[name] * np.sqrt(found.episodes)
        assert scaled.max() < 3.0  # each is a share: its standard deviation is at most ½/√n
        assert found.error[name][-1] < found.error[name][0] / 10
    assert 0.1 < found.error["os"][0] < 0.9


def test_the_bounds_of_theorem_3(found: Laws) -> None:
    assert found.bounds.shape == (6, 3)
    error, _, corrected = found.bounds.T
    assert (error >= 0.0).all()
    assert error.max() > 0.0
    assert (error <= corrected).all()
    step = np.sqrt(2.0 * np.log(2.0))  # one trajectory of a fair coin: its KL is log 2 at either step
    assert found.counter_example == pytest.approx((4.0, 2.0 * step, (2.0 * step) ** 2))


def test_random_layers_are_an_mdp_with_time_in_the_state() -> None:
    P, R, start, end, logits = layered_mdp(np.random.default_rng(0), states=2, actions=3)
    n = 2 * LAYERS + 1
    assert (P.shape, R.shape, logits.shape) == ((n, 3, n), (n, 3), (n, 3))
    np.testing.assert_allclose(P.sum(axis=2), 1.0)
    for s in range(n):
        follows = np.flatnonzero(P[s].sum(axis=0))
        layer = s // 2
        expected = [n - 1] if layer + 1 >= LAYERS else [2 * layer + 2, 2 * layer + 3]
        assert follows.tolist() == expected
    assert start[:2].sum() == pytest.approx(1.0)
    assert end.tolist() == [0.0] * (n - 1) + [1.0]
    assert np.abs(R).max() <= 1.0
    exact = backward_induction(TabularSoftmax(logits), P, R, start, end, gamma=1.0, horizon=99)
    assert exact.mean_length == pytest.approx(LAYERS)


def test_one_step_pays_and_ends() -> None:
    from tests.helpers import trial

    policy = TabularSoftmax(np.zeros((2, 3)))
    data = trial("gridworld", "os", policy=policy, env=one_step(np.array([5.0, -1.0, 2.0])), episodes=60)
    assert (data.lengths == 1).all()
    np.testing.assert_array_equal(data.returns, np.array([5.0, -1.0, 2.0])[data.actions[:, 0].astype(int)])
