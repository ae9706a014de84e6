"""Further resets: what an environment begins with, seen without taking a step.

A reset of a simulator is nearly free, and shows another start. Many of them tell how a policy's episodes begin on average,
which n episodes alone do not (estimators/start_part.py). They begin with a seed that no episode has, and go on from there
without one, as Gymnasium's loops do: seeding takes five times as long as the rest of CartPole's reset.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evenroll.adapters.masks import joined, masks_of
from evenroll.adapters.model import Model
from evenroll.adapters.spaces import Observations
from evenroll.adapters.start_seeds import start_seed
from evenroll.adapters.vector_environments import as_lanes

STEPS_PER_RESET = 3  # without a word of the user, if time allows: M of them add n/M of what starts explain (docs/starts.md)
MOST = 1 << 14  # further resets without a word of the user: more hardly help; a choice
SHARE = 0.1  # of the collecting time, at most, goes into further resets without a word of the user
MOMENT = 0.25  # seconds that nobody misses: within them the number of resets does not depend on the machine
SLOW = 0.02  # seconds; a reset that takes longer may be a person who carries a robot back
TRIED = 8  # further resets that are made to see how long one takes without a seed; a choice
FIRST, FIRST_OF_LANES = 1 << 30, 1 << 20  # numbers that no start of an episode has
SLOW_RESETS = "a reset takes {:.2g} s, so no further ones were made; resets=… (--resets) asks for them"


@dataclass
class Resets:
    """The further resets of one run.

    asked    how many the user wants; None leaves it to the rule below
    rows     what they began with, [M, obs], in parts
    why      why there are none, or fewer than were asked for
    count    how many there are, M
    fastest  seconds that the fastest of them took
    """

    asked: int | None = None
    rows: list[np.ndarray] = field(default_factory=list)
    why: str | None = None
    count: int = 0
    fastest: float = math.inf

    def add(self, rows: np.ndarray) -> None:
        self.rows.append(rows)
        self.count += len(rows)

    def wanted(self, steps: int, seconds: float, one: float) -> int:
        """How many there should be in all after this many steps, which took this long, if one reset takes `one` seconds.

        By default: one for every 3 steps, as long as that takes at most a tenth of the collecting time, or 0.25 s, and none
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


def reset_further(resets: Resets, steps: int, seconds: float, seeded: float, env: Any, model: Model, seed: int) -> None:
    """Reset a Gymnasium environment, or all lanes of a vector environment, as often as `Resets.wanted` says.

    steps, seconds  how many steps the episodes took, and how long
    seeded          how many seconds a reset with a seed takes
    """
    wanted = resets.wanted(steps, seconds, seeded)
    _reset_until(resets, min(wanted, TRIED), env, model, seed)
    if wanted > 0 and resets.why is None:
        _reset_until(resets, resets.wanted(steps, seconds, min(seeded, resets.fastest)), env, model, seed)


def _reset_until(resets: Resets, wanted: int, env: Any, model: Model, seed: int) -> None:
    """Reset until there are `wanted` further starts. A single environment gets a seed at the first reset only."""
    lanes = as_lanes(env)
    masks = masks_of(env) if model.masked else None
    given: int | None = start_seed(seed, FIRST + resets.count)
    try:
        while resets.count < wanted:
            started = time.perf_counter()
            if lanes is None:
                observation, info = env.reset(seed=given)
                given = None
                batch = _batch(model, observation)
            else:
                batch = lanes.reset(seed, FIRST_OF_LANES + resets.count)
                info = lanes.info
            n = 1 if lanes is None else lanes.n
            resets.fastest = min(resets.fastest, (time.perf_counter() - started) / n)
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
