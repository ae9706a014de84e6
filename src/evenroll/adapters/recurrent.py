"""Policies that remember, with a state that they take and give: step(observations, state) → result, state.

What goes into the last linear layer, which knows the state, are the features, so balancing needs nothing else.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch

from evenroll.adapters.contract import Model, deterministic
from evenroll.adapters.memory import LaneMemory, Step
from evenroll.adapters.spaces import Actions, Observations
from evenroll.adapters.torch_module import TorchPolicy
from evenroll.errors import PolicyError
from evenroll.policies.external import External

NAMES = ("state", "states", "hidden", "hidden_state", "hx", "lstm_state", "rnn_state")  # of a parameter that is a state


def step_of(module: Any, tensors: Callable[[Any], Any]) -> Step | None:
    """The step of a module that remembers: its method `step`, or a `forward` that takes a state; None for other modules."""
    takes = list(inspect.signature(module.forward).parameters) if type(module).forward is not torch.nn.Module.forward else []
    if callable(getattr(module, "step", None)):
        run = module.step
    elif len(takes) > 1 and takes[1] in NAMES:
        run = module
    else:
        return None

    def step(batch: Any, state: Any) -> tuple[Any, Any]:
        given = run(tensors(batch), state)
        if not isinstance(given, tuple) or len(given) != 2:
            raise PolicyError(
                f"{type(module).__name__} must give (distribution or logits, state), not {type(given).__name__}"
            )
        return given

    return step


def remembering_policy(
    step: Step, module: Any, observations: Observations, actions: Actions, name: str, most_likely: bool
) -> Model:
    """A policy with a state for each lane."""
    memory = LaneMemory(step, observations)
    torch_policy = TorchPolicy(memory.call, module, observations, actions)
    memory.encode_batch = torch_policy.encode
    actions, note = torch_policy.reading.actions, torch_policy.reading.note
    if torch_policy.reading.noise is not None:
        raise PolicyError(
            f"{name} remembers and gives a Beta, a multivariate normal or several kinds of distributions, which is not "
            "supported together: have it give a Normal, or a function of one observation that gives the action"
        )
    engine = External(torch_policy.width, choices=actions.choices, gaussian=actions.real)
    described = f"{name}, recurrent, through torch, {torch_policy.width} features{note}"
    if most_likely:

        def decide(batch: Any) -> Any:
            return actions.to_envs(actions.distribution.mode(engine.parameters_of_actions(memory.encode(batch))))

        made = deterministic(f"{name}, recurrent", observations, actions, decide)
    else:
        made = Model(described, observations, actions, engine, memory.encode)
    made.restore, made.begin, made.memory = [torch_policy.close], memory.begin, memory
    return made
