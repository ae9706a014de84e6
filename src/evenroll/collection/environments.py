"""The loop over an environment that lives elsewhere: one Gymnasium environment, or several side by side."""

from __future__ import annotations

import functools
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from evenroll.adapters.masks import masks_of, of_lanes
from evenroll.adapters.start_seeds import start_seed
from evenroll.adapters.surroundings import time_limit
from evenroll.adapters.vector_environments import SB3Lanes, VectorLanes, as_lanes, shares
from evenroll.collection.recorder import Recorder
from evenroll.errors import EnvironmentFault, EvenrollError, SpecError

LONGEST = 100_000  # steps after which an episode without a time limit is thought never to end; a choice
LONG = 10_000  # steps of the first episode after which it is said that it has not ended yet; a choice


def collect(
    recorder: Recorder, env: Any, *, episodes: int | None = None, steps: int | None = None, in_rounds: bool = False
) -> Iterator[int]:
    """Collect until there are `episodes` new episodes, or `steps` new steps, in all.

    Whenever an episode has finished, the number of finished episodes is yielded.

    in_rounds  In a vector environment every episode begins with a reset of all lanes, and the episodes are kept in the
               order of their starts. So another policy meets the same starts, each in the same place.
    """
    try:
        lanes = as_lanes(env)
        limit = time_limit(env)
        recorder.longest = max(LONGEST, (limit or 0) + 1)
        if lanes is None:
            yield from _single(recorder, env, episodes, steps)
        elif in_rounds:
            yield from _in_rounds(recorder, lanes, episodes or 0)
        else:
            yield from _side_by_side(recorder, lanes, episodes, steps)
    except (EvenrollError, GeneratorExit, KeyboardInterrupt):
        raise
    except (Exception, SystemExit) as error:  # an environment that calls sys.exit has failed
        kept = recorder.rollouts(unfinished=False)
        text = f"{type(error).__name__} while collecting episode {recorder.episodes}: {error}"
        raise EnvironmentFault(
            f"{text} (seed {recorder.seed}; {kept.episodes} finished episodes are kept)",
            episode=recorder.episodes, seed=recorder.seed, rollouts=kept,
        ) from error  # fmt: skip


def _single(recorder: Recorder, env: Any, episodes: int | None, steps: int | None) -> Iterator[int]:
    act, observe, step = recorder.act, recorder.observe, env.step
    if recorder.model.chunk > 1:
        step = functools.partial(_played_in_a_row, env, recorder.step_gamma)
    masks = masks_of(env) if recorder.model.masked else None
    limit = np.inf if steps is None else steps
    while (episodes is None or recorder.episodes < episodes) and recorder.steps < limit:
        began = time.perf_counter()
        observation, info = env.reset(seed=start_seed(recorder.seed, recorder.starts))
        recorder.fastest_reset = min(recorder.fastest_reset, time.perf_counter() - began)
        over = False
        patience = recorder.steps + LONG if recorder.episodes == 0 and recorder.horizon is None else np.inf
        while not over and recorder.steps < limit:
            action = act(observation) if masks is None else act(observation, masks=masks(info))
            observation, reward, terminated, truncated, info = step(action)
            over = observe(reward, terminated, truncated, observation, info)
            if recorder.steps == patience:
                _say_that_it_is_long(recorder, "horizon=… (--horizon) cuts it")
        yield recorder.episodes


def _played_in_a_row(env: Any, gamma: float, actions: Any) -> tuple[Any, float, bool, bool, Any]:
    """Several actions of one decision, played until they or the episode end. Their discounted rewards are its reward."""
    total, discount = 0.0, 1.0
    for action in actions:
        observation, reward, terminated, truncated, info = env.step(action)
        total, discount = total + discount * float(reward), discount * gamma
        if terminated or truncated:
            break
    return observation, total, terminated, truncated, info


def _say_that_it_is_long(recorder: Recorder, remedy: str) -> None:
    text = f"the first episode has not ended after {LONG:,} steps; it is given up after {recorder.longest:,}; {remedy}"
    warnings.warn(text, UserWarning, stacklevel=2)


def _side_by_side(
    recorder: Recorder, lanes: VectorLanes | SB3Lanes, episodes: int | None, steps: int | None
) -> Iterator[int]:
    if recorder.model.chunk > 1:
        raise SpecError("chunks of actions are for a single environment: several would not end theirs at the same time")
    if recorder.lanes != lanes.n:
        raise SpecError(f"the recorder has {recorder.lanes} lanes, the environment {lanes.n}")
    if episodes is None:
        raise SpecError("several environments side by side count episodes, not steps: short ones would be favoured")
    yield from _run(recorder, lanes, shares(episodes - recorder.episodes, lanes.n))


def _in_rounds(recorder: Recorder, lanes: VectorLanes | SB3Lanes, episodes: int) -> Iterator[int]:
    """One episode of each lane, then a reset of all. The lanes that have ended wait for the others."""
    while recorder.episodes < episodes:
        yield from _run(recorder, lanes, (np.arange(lanes.n) < episodes - recorder.episodes).astype(np.int64))
        recorder.order_by_starts()


def _run(recorder: Recorder, lanes: VectorLanes | SB3Lanes, left: np.ndarray) -> Iterator[int]:
    """Reset all lanes, and go on until each has finished as many episodes as are left for it."""
    masks = masks_of(lanes.env) if recorder.model.masked else None
    began = time.perf_counter()
    observations = lanes.reset(recorder.seed, recorder.starts)
    recorder.fastest_reset = min(recorder.fastest_reset, (time.perf_counter() - began) / lanes.n)
    patience = LONG if recorder.episodes == 0 else -1
    while left.any():
        before = recorder.episodes
        allowed = None if masks is None else of_lanes(masks, lanes)
        actions = recorder.act(observations, (left > 0) & ~lanes.idle, allowed)
        after = lanes.step(actions)
        over = recorder.observe(after.rewards, after.terminated, after.truncated, after.last, after.infos)
        left[over] -= 1
        observations = after.observations
        patience -= 1
        if patience == 0 and recorder.episodes == 0:
            _say_that_it_is_long(recorder, "gymnasium.wrappers.TimeLimit around each environment cuts it")
        if recorder.episodes > before:
            yield recorder.episodes
