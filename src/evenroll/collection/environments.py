"""The loop over an environment that lives elsewhere: one Gymnasium environment, or several side by side."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from evenroll.adapters.vector_environments import SB3Lanes, VectorLanes, as_lanes, episode_seed, shares
from evenroll.collection.recorder import Recorder
from evenroll.errors import EnvironmentFault, EvenrollError, SpecError


def collect(recorder: Recorder, env: Any, *, episodes: int | None = None, steps: int | None = None) -> Iterator[int]:
    """Collect until there are `episodes` new episodes, or `steps` new steps, in all.

    Whenever an episode has finished, the number of finished episodes is yielded.
    """
    try:
        lanes = as_lanes(env)
        if lanes is None:
            yield from _single(recorder, env, episodes, steps)
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
    limit = np.inf if steps is None else steps
    while (episodes is None or recorder.episodes < episodes) and recorder.steps < limit:
        observation, _ = env.reset(seed=episode_seed(recorder.seed, recorder.all_episodes))
        over = False
        while not over and recorder.steps < limit:
            observation, reward, terminated, truncated, info = step(act(observation))
            over = observe(reward, terminated, truncated, observation, info)
        yield recorder.episodes


def _side_by_side(
    recorder: Recorder, lanes: VectorLanes | SB3Lanes, episodes: int | None, steps: int | None
) -> Iterator[int]:
    if recorder.lanes != lanes.n:
        raise SpecError(f"the recorder has {recorder.lanes} lanes, the environment {lanes.n}")
    if episodes is None:
        raise SpecError("several environments side by side count episodes, not steps: short ones would be favoured")
    left = shares(episodes - recorder.episodes, lanes.n)
    observations = lanes.reset(recorder.seed, recorder.all_episodes)
    while left.any():
        before = recorder.episodes
        actions = recorder.act(observations, (left > 0) & ~lanes.idle)
        after = lanes.step(actions)
        over = recorder.observe(after.rewards, after.terminated, after.truncated, after.last, after.infos)
        left[over] -= 1
        observations = after.observations
        if recorder.episodes > before:
            yield recorder.episodes
