"""Masks: which actions are allowed at a step. They come from the environment, and are a part of what the policy observes.

A policy that takes masks observes a Dict of "observation" and "action_mask". So the masks are stored with the data, and
whoever reads the data with the policy again sees the same probabilities.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np

from evenroll.adapters.spaces import Actions, MaskSpace, Observations
from evenroll.adapters.vector_environments import as_lanes, is_sb3
from evenroll.engine import border
from evenroll.errors import SpecError

NAMES = ("mask", "masks", "action_mask", "action_masks")  # of a parameter that is a mask
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
    return Observations.of(gym.spaces.Dict({ENTRY: MaskSpace(actions.choices), "observation": observations.space}))


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


def masks_of(env: Any) -> Callable[[Any], Any]:
    """A function of the last `info` that gives the masks of the next step: one mask, or one for each lane."""
    if as_lanes(env) is None:
        method = _method(env)
        return (lambda info: info.get(ENTRY)) if method is None else (lambda info: method())
    if is_sb3(env):
        return (lambda info: np.stack(env.env_method(METHOD))) if env.has_attr(METHOD) else _of_infos
    if isinstance(getattr(env, "unwrapped", env), gym.vector.AsyncVectorEnv):  # it ends if it is asked for what is not there
        return lambda info: _called(env) if (told := _of_infos(info)) is None else told
    way: Callable[[Any], Any] | None = None

    def masks(info: Any) -> Any:
        nonlocal way
        if way is None:  # decided when it is first asked: before its first reset an environment may have none
            try:
                found = np.stack(env.call(METHOD))
            except AttributeError:  # no such method, or no environments that could be asked one by one
                way = _of_infos
            else:
                way = lambda _: _called(env)  # noqa: E731
                return found
        return way(info)

    return masks


def _called(envs: Any) -> Any:
    try:
        return np.stack(envs.call(METHOD))
    except AttributeError:
        raise SpecError(NO_MASKS) from None


def _of_infos(infos: Any) -> Any:
    """The masks in what a vector environment told: a dictionary of arrays, or a dictionary for each lane."""
    if isinstance(infos, dict):
        return infos.get(ENTRY)
    masks = [info.get(ENTRY) for info in infos]
    return None if not masks or any(mask is None for mask in masks) else np.stack(masks)


def of_lanes(masks: Callable[[Any], Any], lanes: Any) -> Any:
    """The masks of all lanes. One that waits for its reset is asked for nothing, so there everything is allowed."""
    found = masks(lanes.info)
    if found is None or not lanes.idle.any():
        return found
    rows = np.array(found)
    if rows.dtype == object:
        rows = np.stack([np.asarray(row if row is not None else True) for row in rows])
    rows[lanes.idle] = True
    return rows


def _method(env: Any) -> Callable[[], Any] | None:
    try:
        return env.get_wrapper_attr(METHOD)
    except AttributeError:
        return None


# ---- policies of one's own that take masks ---------------------------------------------------------------------------


def takes_mask_argument(function: Callable[..., Any]) -> bool:
    """Whether the second parameter of a function is called a mask."""
    try:
        names = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return False
    return len(names) > 1 and names[1] in NAMES


def mask_handed_over(function: Callable[..., Any]) -> Callable[[Any], Any]:
    """The function of an observation and its mask as a function of what is observed, which holds both."""

    def both(observed: dict[str, Any]) -> Any:
        return function(observed["observation"], np.asarray(observed[ENTRY]).astype(bool))

    both.__name__ = getattr(function, "__name__", type(function).__name__)
    return both
