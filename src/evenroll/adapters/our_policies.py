"""Policies of ours: files, tables and MLPs run in compiled code as they are."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from evenroll.adapters.contract import Model, deterministic
from evenroll.adapters.spaces import Actions, Observations, check_fit
from evenroll.errors import PolicyError
from evenroll.policies.base import Policy
from evenroll.policies.tabular import TabularSoftmax


def our_policy(policy: Policy, observation_space: Any, action_space: Any, most_likely: bool) -> Model:
    """A policy of ours. Where a space is not given, it is the one that the policy itself implies.

    most_likely  take the likeliest action: then the policy is deterministic
    """
    observations = Observations.of(observation_space or _own_observations(policy))
    actions = Actions.of(action_space or _own_actions(policy))
    _check_spaces(policy, observations, actions)
    kind = f"table of {policy.n_states} states" if policy.n_states is not None else "compiled MLP"
    certain = isinstance(policy, TabularSoftmax) and bool((policy.table.max(axis=1) == 1.0).all())
    if certain or most_likely:

        def decide(batch: Any) -> Any:
            return actions.to_envs(actions.distribution.mode(policy.parameters_of_actions(observations.rows(batch))))

        made = deterministic("table" if policy.n_states is not None else "MLP", observations, actions, decide)
    else:
        made = Model(kind, observations, actions, policy, observations.rows)
    critic = policy.critic
    made.critic = None if critic is None else lambda batch: critic(observations.rows(batch))
    return made


def _check_spaces(policy: Policy, observations: Observations, actions: Actions) -> None:
    if policy.n_states != observations.n_states and policy.n_states is not None:
        theirs = f"{observations.n_states} states" if observations.n_states is not None else "vector observations"
        raise PolicyError(f"the policy is a table of {policy.n_states} states, the environment has {theirs}")
    check_fit("the policy", policy.obs_dim, observations)
    ours = (policy.n_actions,) if policy.n_actions is not None else ()
    if ours != actions.choices or policy.action_dim != actions.dim:
        has = f"{policy.n_actions} actions" if ours else f"{policy.action_dim}-d real actions"
        raise PolicyError(f"the policy has {has}, the environment's are {actions.space}")


def _own_observations(policy: Policy) -> gym.Space[Any]:
    if policy.n_states is not None:
        return gym.spaces.Discrete(policy.n_states)
    return gym.spaces.Box(-np.inf, np.inf, (policy.obs_dim,), np.float64)


def _own_actions(policy: Policy) -> gym.Space[Any]:
    if policy.n_actions is not None:
        return gym.spaces.Discrete(policy.n_actions)
    return gym.spaces.Box(-np.inf, np.inf, (policy.action_dim,), np.float64)
