"""A policy of any make, as the loop needs it. `as_model` recognises which of these it was given:

one of ours (file, table, MLP) · model of Stable-Baselines3 or sb3-contrib · torch module or CleanRL agent · function of one
observation that gives probabilities, a distribution or an action · function of an observation and of noise
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import gymnasium as gym

from evenroll.adapters.contract import Model
from evenroll.adapters.functions import function_policy
from evenroll.adapters.latent_noise import LatentNoise, latent_policy
from evenroll.adapters.masks import mask_handed_over, takes_mask_argument, with_masks
from evenroll.adapters.our_policies import our_policy
from evenroll.adapters.probing import random_states_kept
from evenroll.adapters.sb3_saved import SavedModel
from evenroll.adapters.sb3_zip import load_sb3
from evenroll.adapters.spaces import Actions, Observations
from evenroll.errors import PolicyError, SpecError
from evenroll.policies.base import Policy
from evenroll.policies.policy_files import load_policy

__all__ = ["Model", "as_model", "takes_masks"]


def as_model(
    policy: Any,
    observation_space: gym.Space[Any] | None,
    action_space: gym.Space[Any] | None,
    *,
    deterministic: bool = False,
    compile: bool = True,
) -> Model:
    """Recognise a policy. The spaces may be left out where the policy itself has them (ours, Stable-Baselines3).

    The policy is asked a few questions. Its parameters, and everybody's random numbers, are left as they were.
    """
    with random_states_kept():
        return _recognised(policy, observation_space, action_space, deterministic, compile)


def _recognised(
    policy: Any,
    observation_space: gym.Space[Any] | None,
    action_space: gym.Space[Any] | None,
    deterministic: bool,
    compile: bool,
) -> Model:
    if isinstance(policy, str | Path):
        policy = load_sb3(policy) if str(policy).endswith(".zip") else load_policy(policy)
    if isinstance(policy, Policy):
        return our_policy(policy, observation_space, action_space, deterministic)
    from_sb3, saved = _is_sb3(policy), isinstance(policy, SavedModel)
    if from_sb3 or saved:
        observation_space = observation_space or policy.observation_space
        action_space = action_space or policy.action_space
    if observation_space is None or action_space is None:
        raise SpecError(
            f"a {type(policy).__name__} does not say what it observes and does: give observation_space=env."
            "observation_space and action_space=env.action_space (on the command line --env ENV)"
        )
    observations, actions = Observations.of(observation_space), Actions.of(action_space)
    if isinstance(policy, SavedModel):
        from evenroll.adapters.sb3_networks import policy_of

        policy = policy_of(policy, observation_space, action_space)
    if from_sb3 or saved:
        from evenroll.adapters.sb3_models import sb3_model

        return sb3_model(policy, observations, actions, deterministic, compile, takes_masks(policy))
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(policy, torch.nn.Module):
        from evenroll.adapters.modules import module_policy

        return module_policy(policy, observations, actions, deterministic, compile)
    if isinstance(policy, LatentNoise):
        return latent_policy(policy, observations, actions, deterministic)
    if callable(policy) and not isinstance(policy, type):
        if not takes_mask_argument(policy):
            return function_policy(policy, observations, actions, deterministic)
        made = function_policy(mask_handed_over(policy), with_masks(observations, actions), actions, deterministic)
        made.masked = True
        return made
    raise PolicyError(_no_policy(policy))


def _no_policy(policy: Any) -> str:
    if isinstance(policy, type):
        return f"the class {policy.__name__} is no policy yet: make an object of it, with its parameters"
    if isinstance(policy, dict) and policy and all(hasattr(x, "detach") for x in policy.values()):
        return (
            "a state_dict holds parameters without the network that they belong to: make the module, call its "
            "load_state_dict(…), and give the module"
        )
    return (
        f"a {type(policy).__name__} is no policy: give a policy file, a Stable-Baselines3 model, a torch module or a "
        "function of one observation that gives action probabilities, such as lambda x: policy.probabilities(x)"
    )


def _is_sb3(policy: Any) -> bool:
    return hasattr(policy, "predict") and any(
        kind.__module__.startswith(("stable_baselines3.", "sb3_contrib.")) for kind in type(policy).__mro__
    )


def takes_masks(policy: Any) -> bool:
    """Whether a model of sb3-contrib must be told which of its actions are allowed."""
    if isinstance(policy, SavedModel):
        return policy.kind.acts == "masked"
    kinds = type(getattr(policy, "policy", policy)).__mro__
    contrib = any(kind.__module__.startswith("sb3_contrib.common.maskable") for kind in kinds)
    return contrib or getattr(policy, "takes_masks", False) is True
