"""Asking twice: what is found out, and what passes."""

from __future__ import annotations

import gymnasium as gym
import numpy as np

from evenroll.adapters.probing import answers_alike, decides_alike
from evenroll.adapters.spaces import Observations

OBSERVATIONS = Observations.of(gym.spaces.Box(-1.0, 1.0, (2,), np.float64))
PROBES = OBSERVATIONS.probes(8)


def close(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(np.abs(a - b).max(initial=0.0) < 1e-6)


def test_a_function_of_its_observation_passes() -> None:
    assert answers_alike(np.tanh, close, OBSERVATIONS, PROBES)
    assert answers_alike(lambda x: np.where(x > 0.5, np.nan, x), close, OBSERVATIONS, PROBES)  # reported where it acts
    assert decides_alike(lambda x: int(x[0] > 0), list(PROBES))


def test_what_depends_on_more_does_not() -> None:
    calls = [0]

    def counts(x):
        calls[0] += 1
        return x + calls[0]

    assert not answers_alike(counts, close, OBSERVATIONS, PROBES)
    assert not answers_alike(lambda x: x + np.arange(len(x))[:, None], close, OBSERVATIONS, PROBES)  # on its place
    assert not answers_alike(lambda x: x - x.mean(axis=0), close, OBSERVATIONS, PROBES)  # on the others
    assert not answers_alike(lambda x: x + len(x), close, OBSERVATIONS, PROBES)  # on how many there are


def test_a_rare_draw_is_found() -> None:
    """One action in a hundred is another: 2,000 questions miss that once in 10⁸ times."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        assert not decides_alike(lambda x, rng=rng: int(rng.random() < 0.01), list(PROBES))
