"""Data that somebody else collected, as a policy sees it."""

from __future__ import annotations

import dataclasses

import numpy as np

from evenroll.adapters.model import Model
from evenroll.collection.rollouts import Rollouts
from evenroll.engine import border
from evenroll.errors import DataError
from evenroll.policies import External, Policy


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
    features, outputs = model.of_rows(observations)
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


def handed_in(engine: Policy, data: Rollouts | None) -> Rollouts | None:
    """Initial data as the engine observes it. Where the network runs elsewhere, that is its features and outputs."""
    if data is None or not isinstance(engine, External):
        return data
    handed = np.append(data.column("features")[:, :-1], data.column("outputs"), axis=1)
    return dataclasses.replace(data, observations=handed)
