"""Further resets: what an environment begins with, seen without taking a step.

A reset of a simulator is nearly free, and shows another start. Many of them tell how a policy's episodes begin on average,
which n episodes alone do not (estimators/start_part.py). They are made as the episodes' own resets are, with seeds that no
episode has.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evenroll.adapters.masks import joined, masks_of
from evenroll.adapters.model import Model
from evenroll.adapters.spaces import Observations
from evenroll.adapters.start_seeds import start_seed
from evenroll.adapters.vector_environments import as_lanes

STEPS_PER_RESET = 20  # without a word of the user there is at most one further reset for so many steps
MOST = 1 << 14  # further resets without a word of the user: more hardly help; a choice
SHARE = 0.1  # of the collecting time, at most, goes into further resets without a word of the user
MOMENT = 0.05  # seconds that nobody misses: within them the number of resets does not depend on the machine
SLOW = 0.02  # seconds; a reset that takes longer may be a person who carries a robot back
FIRST, FIRST_OF_LANES = 1 << 30, 1 << 20  # numbers that no start of an episode has
SLOW_RESETS = "a reset takes {:.2g} s, so no further ones were made; resets=… (--resets) asks for them"


@dataclass
class Resets:
    """The further resets of one run.

    asked    how many the user wants; None leaves it to the rule below
    rows     what they began with, [M, obs], in parts
    why      why there are none, or fewer than were asked for
    count    how many there are, M
    """

    asked: int | None = None
    rows: list[np.ndarray] = field(default_factory=list)
    why: str | None = None
    count: int = 0

    def add(self, rows: np.ndarray) -> None:
        self.rows.append(rows)
        self.count += len(rows)

    def wanted(self, steps: int, seconds: float, one: float) -> int:
        """How many there should be in all after this many steps, which took this long, if one reset takes `one` seconds.

        By default: one for every 20 steps, as long as that takes at most a tenth of the collecting time, or 0.05 s, and none
        where a single reset is slow. If time is what limits them, their number is a power of two, so that it seldom differs
        from one run to the next.
        """
        if self.asked is not None:
            return self.asked
        if one > SLOW:
            self.why = SLOW_RESETS.format(one)
            return 0
        wanted = min(steps // STEPS_PER_RESET, MOST)
        allowed = max(SHARE * seconds, MOMENT)
        if wanted * one <= allowed:
            return wanted
        fitting = int(allowed / one)
        return 0 if fitting < 1 else 1 << (fitting.bit_length() - 1)

    def observations(self) -> np.ndarray | None:
        return np.concatenate(self.rows) if self.rows else None


def reset_further(resets: Resets, wanted: int, env: Any, model: Model, seed: int) -> None:
    """Reset a Gymnasium environment, or all lanes of a vector environment, until there are `wanted` further starts."""
    lanes = as_lanes(env)
    masks = masks_of(env) if model.masked else None
    try:
        while resets.count < wanted:
            if lanes is None:
                observation, info = env.reset(seed=start_seed(seed, FIRST + resets.count))
                batch = _batch(model, observation)
            else:
                batch = lanes.reset(seed, FIRST_OF_LANES + resets.count)
                info = lanes.info
            n = 1 if lanes is None else lanes.n
            if masks is not None:
                batch = joined(model.observations, batch, masks(info), n)
            rows = model.observations.rows(batch)
            if not np.isfinite(rows).all():
                resets.why = "a further reset gave an observation that is not finite"
                return
            resets.add(rows)
    except Exception as error:  # a wrapper may refuse: the episodes are there all the same
        resets.why = f"a further reset failed ({type(error).__name__}: {error})"


def _batch(model: Model, observation: Any) -> Any:
    """One observation as a batch of one, before its masks are joined to it."""
    if not model.masked:
        return model.observations.batch(observation)
    return Observations.of(model.observations.space["observation"]).batch(observation)  # type: ignore[index]
