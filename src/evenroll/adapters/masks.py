"""Masks: which actions are allowed at a step. They come from the environment, and are a part of what the policy observes.

A policy that takes masks observes a Dict of "observation" and "action_mask". So the masks are stored with the data, and
whoever reads the data with the policy again sees the same probabilities.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np

from evenroll.adapters.spaces import Actions, Observations
from evenroll.adapters.vector_environments import as_lanes, is_sb3
from evenroll.engine import border
from evenroll.errors import SpecError

METHOD, ENTRY = "action_masks", "action_mask"  # sb3-contrib's name of the method, and Gymnasium's of the entry in `info`
NO_MASKS = (
    "the policy needs masks of its actions: give the environment a method action_masks() that returns an array of booleans "
    "(True: allowed), wrap it in sb3_contrib.common.wrappers.ActionMasker(env, mask_function), or have it put "
    'info["action_mask"]; in a loop of your own: collector.act(observation, masks=mask)'
)


def with_masks(observations: Observations, actions: Actions) -> Observations:
    """What a policy with masks observes."""
    if not actions.choices:
        raise SpecError(f"masks are for discrete actions, not for {actions.space}")
    mask = gym.spaces.MultiBinary(sum(actions.choices))
    return Observations.of(gym.spaces.Dict({ENTRY: mask, "observation": observations.space}))


def joined(observations: Observations, batch: Any, masks: Any, lanes: int) -> dict[str, Any]:
    """A batch of observations together with its masks [lanes, values], as the policy observes it."""
    if masks is None:
        raise SpecError(NO_MASKS)
    space = observations.space[ENTRY]  # type: ignore[index]
    rows = border.numbers("the masks", masks)
    if rows.size != lanes * space.n or (lanes > 1 and len(rows) != lanes):
        wanted = f"{lanes * space.n}, one for each value of the actions" + (f" in {lanes} lanes" if lanes > 1 else "")
        raise SpecError(f"the masks have {rows.size} entries in shape {list(rows.shape)}, not {wanted}")
    rows = rows.reshape(lanes, space.n)
    if not np.isin(rows, (0, 1)).all() or not rows.any(axis=1).all():
        raise SpecError("a mask must hold True or False for every action, and allow at least one")
    return {ENTRY: rows.astype(np.int8), "observation": batch}


def masks_of(env: Any) -> Callable[[dict[str, Any]], Any]:
    """A function of the last `info` that gives the masks of the next step: one mask, or one for each lane."""
    if as_lanes(env) is None:
        method = _method(env)
        return (lambda info: info.get(ENTRY)) if method is None else (lambda info: method())
    if is_sb3(env):
        if not env.has_attr(METHOD):
            raise SpecError(NO_MASKS)
        return lambda info: np.stack(env.env_method(METHOD))
    return lambda info: np.stack(_called(env))


def _method(env: Any) -> Callable[[], Any] | None:
    try:
        return env.get_wrapper_attr(METHOD)
    except AttributeError:
        return None


def _called(envs: Any) -> Any:
    try:
        return envs.call(METHOD)
    except AttributeError:
        raise SpecError(NO_MASKS) from None
