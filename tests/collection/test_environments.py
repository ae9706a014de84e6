"""The loop around an environment: what goes wrong in it is named, and the data is kept."""

from __future__ import annotations

import math

import pytest

import evenroll
from evenroll.collection import recorder
from evenroll.errors import EnvironmentFault
from tests.helpers import DISCRETE, Walk
from tests.torch_helpers import Head, categorical


class Broken(Walk):
    """Goes wrong in its third episode, at its fourth step."""

    def __init__(self, how: str) -> None:
        super().__init__(DISCRETE)
        self.how, self.episode = how, -1

    def reset(self, *, seed=None, options=None):
        self.episode += 1
        return super().reset(seed=seed)

    def step(self, action):
        x, r, over, cut, info = super().step(action)
        if self.episode == 2 and self.t == 4:
            if self.how == "raise":
                raise RuntimeError("out of fuel")
            if self.how == "reward":
                r = math.nan
            if self.how == "observation":
                x[1] = math.inf
        return x, r, over and self.how != "endless", cut, info


@pytest.mark.parametrize(
    ("how", "where"),
    [("reward", r"reward nan.*episode 2, step 3, seed 5"), ("observation", r"not finite.*episode 2, step 4, seed 5"),
     ("raise", r"RuntimeError.*episode 2: out of fuel"), ("endless", r"not ended after 50 steps.*episode 0, step 50")],
)  # fmt: skip
def test_a_broken_environment_is_named_and_the_data_kept(how: str, where: str, monkeypatch) -> None:
    monkeypatch.setattr(recorder, "LONGEST_EPISODE", 50)
    with pytest.raises(EnvironmentFault, match=where) as caught:
        evenroll.evaluate(Broken(how), Head(3, 3, categorical), episodes=10, seed=5)
    kept = caught.value.rollouts
    assert kept.episodes == (0 if how == "endless" else 2)
    assert caught.value.seed == 5
    if how == "endless":
        assert evenroll.evaluate(Broken(how), Head(3, 3, categorical), episodes=3, horizon=9).truncated == 3
