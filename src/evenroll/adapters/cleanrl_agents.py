"""CleanRL's agents as they are: torch modules without a `forward` that would tell the distribution of their actions.

    PPO  `get_action_and_value(x, action)`, with an `actor` that gives logits, or `actor_mean` and `actor_logstd`
    SAC  `get_action(x)`; `forward(x)` gives mean and log scale before tanh, `action_scale` and `action_bias` come after it

What the layers give is caught on its way. That it means what it is taken for is checked: the log-probability that the agent
itself gives for an action must be the one that follows from what was caught.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.distributions import AffineTransform, Categorical, Normal, TanhTransform, TransformedDistribution

from evenroll.adapters.spaces import Actions
from evenroll.errors import PolicyError

SAME = 1e-3  # how far the agent's log-probability may be from ours, relative to its size


def agent_call(module: Any, tensors: Callable[[Any], Any], actions: Actions) -> Callable[[Any], Any] | None:
    """A function of a batch of observations that gives the distribution of the agent's actions; None for other modules.

    tensors  turns a batch of observations into tensors of the kind that the module wants
    """
    if hasattr(module, "get_action_and_value"):
        distribution = _ppo(module, actions)
        return lambda batch: distribution(tensors(batch))
    if all(hasattr(module, name) for name in ("get_action", "action_scale", "action_bias")):
        return lambda batch: _sac(module, module(tensors(batch)))
    return None


def agent_step(module: Any, tensors: Callable[[Any], Any], actions: Actions) -> Callable[[Any, Any], Any] | None:
    """The step of a recurrent agent, `get_action_and_value(x, lstm_state, done, action)`; None for other modules."""
    method = getattr(module, "get_action_and_value", None)
    if method is None or list(inspect.signature(method).parameters)[:4] != ["x", "lstm_state", "done", "action"]:
        return None

    real, name = hasattr(module, "actor_mean") and hasattr(module, "actor_logstd"), type(module).__name__
    head = module.actor_mean if real else getattr(module, "actor", None)
    lstm = getattr(module, "lstm", None)
    if head is None or bool(actions.real) != real or not isinstance(lstm, torch.nn.LSTM):
        raise PolicyError(
            f"{name} has no `lstm`, or neither `actor` for discrete actions nor `actor_mean` and `actor_logstd` for real "
            "ones: give a torch.nn.Module with step(x, state) that returns (distribution, state) (docs/policies.md)"
        )

    def step(batch: Any, state: Any) -> tuple[Any, Any]:
        x = tensors(batch)
        if state is None:
            zeros = torch.zeros(lstm.num_layers, len(x), lstm.hidden_size)
            state = zeros, zeros
        caught: list[torch.Tensor] = []
        hook = head.register_forward_hook(lambda layer, inputs, output: caught.append(output))
        try:
            none = torch.zeros((len(x), actions.dim)) if real else torch.zeros(len(x), dtype=torch.int64)
            _, said, *_, state = method(x, state, torch.zeros(len(x)), none)
        finally:
            hook.remove()
        if real:
            result: Any = Normal(caught[-1], module.actor_logstd.expand_as(caught[-1]).exp())
            _compare(name, said, result.log_prob(none).sum(dim=1))
        else:
            result = Categorical(logits=caught[-1])
            _compare(name, said, result.log_prob(none))
        return result, state

    return step


def agent_critic(module: Any, tensors: Callable[[Any], Any]) -> Callable[[Any], np.ndarray] | None:
    """The value V(s) that the agent's `get_value(x)` gives; None for modules without, and for those that remember."""
    method = getattr(module, "get_value", None)
    if method is None or list(inspect.signature(method).parameters) != ["x"]:
        return None

    def values(batch: Any) -> np.ndarray:
        with torch.inference_mode():
            return np.asarray(method(tensors(batch)).double().numpy().reshape(-1))

    return values


def _compare(name: str, said: torch.Tensor, ours: torch.Tensor) -> None:
    """Raise unless the agent's own log-probabilities are those of what was caught."""
    if said.shape != ours.shape or float((said - ours).abs().max()) > SAME * (1.0 + float(ours.abs().max())):
        raise PolicyError(
            f"{name}.get_action_and_value gives other log-probabilities than its actor: give a torch.nn.Module whose "
            "forward(x) returns the distribution of its actions"
        )


def _sac(actor: Any, result: Any) -> Any:
    if not isinstance(result, tuple) or len(result) != 2:
        raise PolicyError(f"{type(actor).__name__}.forward(x) does not give (mean, log_std) as CleanRL's SAC actor does")
    mean, log_std = result
    after = AffineTransform(actor.action_bias, actor.action_scale)
    return TransformedDistribution(Normal(mean, log_std.exp()), [TanhTransform(), after])


def _ppo(agent: Any, actions: Actions) -> Callable[[torch.Tensor], Any]:
    name = type(agent).__name__
    wanted = [p.name for p in inspect.signature(agent.get_action_and_value).parameters.values()]
    if wanted[:2] != ["x", "action"]:
        raise PolicyError(
            f"{name}.get_action_and_value takes {', '.join(wanted)}: known is (x, action); give a torch.nn.Module whose "
            "forward(x) returns the distribution, or for a recurrent agent one with step(x, state) (docs/policies.md)"
        )
    real = hasattr(agent, "actor_mean") and hasattr(agent, "actor_logstd")
    head = agent.actor_mean if real else getattr(agent, "actor", None)
    if head is None or bool(actions.real) != real:
        raise PolicyError(
            f"{name} has neither `actor` for discrete actions nor `actor_mean` and `actor_logstd` for real ones: give a "
            "torch.nn.Module whose forward(x) returns the distribution of its actions"
        )
    checked = False

    def distribution(x: torch.Tensor) -> Any:
        nonlocal checked
        caught: list[torch.Tensor] = []
        hook = head.register_forward_hook(lambda module, inputs, output: caught.append(output))
        try:
            zeros = torch.zeros((len(x), actions.dim)) if real else torch.zeros(len(x), dtype=torch.int64)
            said = agent.get_action_and_value(x, zeros)[1]
        finally:
            hook.remove()
        result = (
            Normal(caught[-1], agent.actor_logstd.expand_as(caught[-1]).exp()) if real else Categorical(logits=caught[-1])
        )
        if not checked:
            _compare(name, said, result.log_prob(zeros).sum(dim=1) if real else result.log_prob(zeros))
            checked = True
        return result

    return distribution
