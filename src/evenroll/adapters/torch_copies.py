"""Torch modules made from our policies."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.distributions import Categorical, Normal

from evenroll.engine.scalars import LEAST_SOFTPLUS
from evenroll.errors import PolicyError
from evenroll.policies.base import Policy
from evenroll.policies.mlp import MLP, NORM_EPSILON
from evenroll.policies.tabular import TabularSoftmax


def _parameter(x: Any) -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.tensor(np.asarray(x), dtype=torch.float64))


class _Table(torch.nn.Module):
    def __init__(self, policy: TabularSoftmax) -> None:
        super().__init__()
        self.logits = torch.nn.Parameter(torch.tensor(policy.logits))

    def forward(self, state: Any) -> Any:
        return Categorical(logits=self.logits[int(state)])


class _Network(torch.nn.Module):
    def __init__(self, policy: MLP) -> None:
        super().__init__()
        self.policy = policy
        if policy.norm is not None:
            mean, var, weight, bias = policy.norm
            self.register_buffer("mean", torch.tensor(mean))
            self.register_buffer("scale", 1.0 / torch.sqrt(torch.tensor(var) + NORM_EPSILON))
            self.norm_weight, self.norm_bias = _parameter(weight), _parameter(bias)
        self.weights = torch.nn.ParameterList([_parameter(w) for w, _ in policy.layers] + [_parameter(policy.head_weight)])
        self.biases = torch.nn.ParameterList([_parameter(b) for _, b in policy.layers] + [_parameter(policy.head_bias)])
        if policy.scale == "log_std" and policy.head == "gaussian":
            self.log_std = _parameter(policy.log_std)

    def forward(self, state: Any) -> Any:
        x = torch.as_tensor(np.asarray(state), dtype=torch.float64)
        policy = self.policy
        if policy.norm is not None:
            x = (x - self.mean) * self.scale * self.norm_weight + self.norm_bias
        *hidden, head = zip(self.weights, self.biases, strict=True)
        for w, b in hidden:
            x = torch.nn.functional.linear(x, w, b)
            x = torch.relu(x) if policy.activation == "relu" else torch.tanh(x)
        out = torch.nn.functional.linear(x, *head)
        if policy.head == "softmax":
            return Categorical(logits=out)
        if policy.scale == "log_std":
            mean, scale = out, self.log_std.exp()
        else:
            mean, scale = out[..., 0::2], torch.nn.functional.softplus(out[..., 1::2]).clamp(min=LEAST_SOFTPLUS)
        return Normal(torch.tanh(mean) if policy.mean == "tanh" else mean, scale)


def to_torch(policy: Policy) -> torch.nn.Module:
    """The same policy as a torch module in float64."""
    if isinstance(policy, TabularSoftmax):
        return _Table(policy)
    if isinstance(policy, MLP):
        return _Network(policy)
    raise PolicyError(f"no torch version of a policy of type {type(policy).__name__}")
