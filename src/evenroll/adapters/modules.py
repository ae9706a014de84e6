"""Torch modules: one that maps a batch of observations to distributions or logits, and CleanRL's agents as they are."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from evenroll.adapters.cleanrl_agents import agent_call, agent_critic, agent_step
from evenroll.adapters.contract import Model, deterministic
from evenroll.adapters.masks import takes_mask_argument, with_masks
from evenroll.adapters.probing import answers_alike
from evenroll.adapters.recurrent import remembering_policy, step_of
from evenroll.adapters.spaces import TABLE_SIZE, Actions, Observations
from evenroll.adapters.torch_module import NO_FUNCTION, TorchPolicy, tensors_for, training_flags
from evenroll.adapters.torch_results import SQUASH
from evenroll.errors import PolicyError
from evenroll.policies.external import External
from evenroll.policies.tabular import TabularSoftmax


def module_policy(module: Any, observations: Observations, actions: Actions, most_likely: bool, compile: bool) -> Model:
    """A torch module. With `most_likely` it is deterministic: its likeliest action, or the tensor that it gives, counts."""
    restore, name = training_flags(module), type(module).__name__
    try:
        tensors = tensors_for(module, observations.n_states is not None)
        remembers = agent_step(module, tensors, actions) or step_of(module, tensors)
        make = _most_likely if most_likely else functools.partial(network, compile=compile)
        if remembers is not None:
            made = remembering_policy(remembers, module, observations, actions, name, most_likely)
        elif takes_mask_argument(module.forward):

            def masked(batch: Any) -> Any:
                return module(tensors(batch["observation"]), torch.as_tensor(batch["action_mask"]).bool())

            made = make(masked, module, with_masks(observations, actions), actions, name=f"{name} with its masks")
            made.masked = True
        else:
            call = agent_call(module, tensors, actions) or (lambda batch: module(tensors(batch)))
            made = make(call, module, observations, actions, name=name)
            made.critic = agent_critic(module, tensors)
        made.clips = None if most_likely else SQUASH
    except Exception:
        restore()
        raise
    made.restore.append(restore)
    return made


def network(
    call: Callable[[Any], Any], module: Any, observations: Observations, actions: Actions, compile: bool, name: str
) -> Model:
    """The policy that `call` computes: as a table of numbered states, as a compiled MLP, or through torch."""
    torch_policy = TorchPolicy(call, module, observations, actions)
    actions, note = torch_policy.reading.actions, torch_policy.reading.note
    made = Model(name, observations, actions, encode=observations.rows, restore=[torch_policy.close])
    if observations.n_states is not None and observations.n_states <= TABLE_SIZE and len(actions.choices) == 1:
        states = observations.start + np.arange(observations.n_states)
        made.described, made.engine = f"{name}, as a table{note}", TabularSoftmax(torch_policy.outputs(states))
        return made
    made.torch = torch_policy
    mlp = torch_policy.compiled() if compile else None
    if mlp is not None:
        made.described, made.engine = f"{name}, a compiled MLP{note}", mlp
        return made
    what = f"{torch_policy.width} features" if torch_policy.head is not None else "no features found: no linear layer"
    made.described, made.encode = f"{name} through torch, {what}{note}", torch_policy.encode
    made.engine = External(torch_policy.width, choices=actions.choices, gaussian=actions.real)
    noise = torch_policy.reading.noise
    if noise is not None:
        made.torch = None  # ROS through torch follows the score of the action, not that of its noise

        def noise_of(batch: Any, rows: np.ndarray) -> np.ndarray:
            torch_policy.outputs(batch)
            return noise.noise_of(rows)

        made.play, made.noise_of = lambda batch, rows: noise.played(rows), noise_of
        made.clipped, made.played_actions = lambda: noise.clipped, noise.env
    return made


def _most_likely(call: Callable[[Any], Any], module: Any, observations: Observations, actions: Actions, name: str) -> Model:
    module.eval()
    try:
        torch_policy = TorchPolicy(call, module, observations, actions)
    except PolicyError:  # no distribution: then the tensor itself is the action
        return _its_actions(call, observations, actions, name)
    torch_policy.close()
    playing = torch_policy.reading.actions

    noise = torch_policy.reading.noise

    def decide(batch: Any) -> Any:
        outputs = torch_policy.outputs(batch)
        return playing.to_envs(playing.distribution.mode(outputs)) if noise is None else noise.likeliest()

    return deterministic(name, observations, actions, decide)


def _its_actions(call: Callable[[Any], Any], observations: Observations, actions: Actions, name: str) -> Model:
    def rows(batch: Any) -> np.ndarray:
        with torch.inference_mode():
            out = call(batch)
        if not isinstance(out, torch.Tensor) or out.reshape(len(out), -1).shape[1] != actions.dim:
            shape = list(out.shape) if isinstance(out, torch.Tensor) else type(out).__name__
            raise PolicyError(
                f"{name} gives {shape} for {len(observations.rows(batch))} observations: no action of {actions.space}"
            )
        out = out.double().numpy().reshape(len(out), -1)
        return out - np.ravel(actions._start) if actions.choices else out

    if not answers_alike(rows, actions.same, observations, observations.probes()):
        raise PolicyError(NO_FUNCTION)
    return deterministic(name, observations, actions, lambda batch: actions.to_envs(rows(batch)))
