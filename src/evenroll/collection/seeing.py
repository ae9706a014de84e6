"""Data that somebody else collected, as a policy sees it."""

from __future__ import annotations

import dataclasses

import numpy as np

from evenroll.adapters.model import Model
from evenroll.collection.rollouts import Rollouts
from evenroll.engine import border
from evenroll.errors import DataError
from evenroll.policies import External, Policy
from evenroll.text.numbers import first_line

SAME_LOG = 1e-2  # how far log π_e of the data may be from ours: a squash is undone only up to the rounding of float32
CHUNK = 1024  # observations that go to a policy at once


def see(model: Model, data: Rollouts) -> Rollouts:
    """The data as this policy sees it: with its log π_e and, for a network that runs elsewhere, its features and outputs."""
    data = data.sound()
    observations, actions = data.column("observations"), data.column("actions")
    if observations.shape[1] != model.observations.size or actions.shape[1] != model.actions.dim:
        raise DataError(
            f"the data has observations of {observations.shape[1]} numbers and {actions.shape[1]}-d actions, the policy's "
            f"are {model.observations.size} and {model.actions.dim}"
        )
    actions = border.rows("the actions in the data", actions, model.actions.dim, DataError, data.steps)
    border.places("the data has an action", actions, model.actions.choices, DataError)
    observations = border.rows("the observations in the data", observations, model.observations.size, DataError, data.steps)
    if model.observations.n_states is not None:
        border.places("the data has a state", observations, (model.observations.n_states,), DataError)
    if model.engine is None:
        return _of_deterministic(model, data, observations, actions)
    try:
        features, outputs = model.of_rows(observations, data.all_lengths)
    except (ValueError, RuntimeError, TypeError, IndexError) as error:  # a network's own words
        raise DataError(f"the policy fails on the observations in the data: {first_line(error)}") from error
    if features is not None and not np.isfinite(features).all():
        raise DataError("the policy's features of the data are not finite: its observations are too large")
    if model.play is not None:
        actions = _noise_of(model, data, observations, outputs)
        data = dataclasses.replace(data, actions=actions)
    elif model.actions.squash is not None:
        actions = _before_squash(model, data, outputs)
        data = dataclasses.replace(data, actions=actions)
    log_e = model.actions.distribution.log_probs(outputs, actions)
    if not np.isfinite(log_e).all():
        raise DataError(f"the policy never takes the action of row {int(np.flatnonzero(~np.isfinite(log_e))[0])}")
    seen = dataclasses.replace(data, log_e=log_e)
    if isinstance(model.engine, External):
        seen = dataclasses.replace(seen, features=features, outputs=outputs.astype(np.float32))
    if data.log_b is not None:
        ratio = np.append(0.0, np.cumsum(log_e - data.log_b))
        seen = dataclasses.replace(seen, log_weights=np.diff(ratio[np.append(0, data.ends)]))
    return seen


def _before_squash(model: Model, data: Rollouts, outputs: np.ndarray) -> np.ndarray:
    """The actions before the policy's squash. Our own data has them so, others' has what the environment got.

    Which it is, is told by log π_e where the data has it. Without, the actions are taken for the environment's.
    """
    given = data.column("actions")
    played = model.actions.from_env(given)
    if data.log_e is None:
        if model.actions.outside(given):
            raise DataError("the data has actions outside the bounds of the action space: they are not the environment's")
        return played
    for rows in (given, played):
        if np.allclose(model.actions.distribution.log_probs(outputs, rows), data.log_e, atol=SAME_LOG, rtol=SAME_LOG):
            return rows
    raise DataError(
        "the policy squashes its actions, and log_e of the data fits neither the actions as they are nor those before the "
        "squash: it is data of another policy, or its actions are so near the bounds that the squash cannot be undone; "
        "drop log_e and log_b, or collect again into .safetensors or .parquet, which keep the actions before the squash"
    )


def _noise_of(model: Model, data: Rollouts, observations: np.ndarray, outputs: np.ndarray) -> np.ndarray:
    """The noise behind the actions. Our own data has it, others' has what the environment got."""
    given = data.column("actions")
    if data.log_e is not None and np.allclose(
        model.actions.distribution.log_probs(outputs, given), data.log_e, atol=SAME_LOG, rtol=SAME_LOG
    ):
        return given
    if model.noise_of is None:
        raise DataError("the data has no noise of the policy, and actions do not tell which noise they came of")
    shaped = [
        (model.observations.shaped(observations[i : i + CHUNK]), given[i : i + CHUNK]) for i in range(0, len(given), CHUNK)
    ]
    return np.concatenate([np.zeros((0, model.actions.dim)), *(model.noise_of(*part) for part in shaped)])


def _of_deterministic(model: Model, data: Rollouts, observations: np.ndarray, actions: np.ndarray) -> Rollouts:
    """The data itself, if a deterministic policy would have taken just these actions."""
    assert model.decide is not None
    if model.draws or model.begin is not None:
        raise DataError("the policy draws its own actions or remembers, so it cannot be told whether the data is its own")
    shaped = [model.observations.shaped(observations[i : i + CHUNK]) for i in range(0, len(observations), CHUNK)]
    parts = [model.actions.from_env(model.decide(batch)) for batch in shaped]
    off = ~np.isclose(np.concatenate([np.zeros((0, actions.shape[1])), *parts]), actions, rtol=1e-4, atol=1e-5).all(axis=1)
    if off.any():
        raise DataError(
            f"the policy is deterministic, and it would have taken another action in row {int(np.flatnonzero(off)[0])}: "
            "data of other actions says nothing about it"
        )
    return dataclasses.replace(data, log_e=np.zeros(len(actions)))


def handed_in(engine: Policy, data: Rollouts | None) -> Rollouts | None:
    """Initial data as the engine observes it. Where the network runs elsewhere, that is its features and outputs."""
    if data is None or not isinstance(engine, External):
        return data
    handed = np.append(data.column("features")[:, :-1], data.column("outputs"), axis=1)
    return dataclasses.replace(data, observations=handed)
