"""Networks of torch that several tests need. Small ones: threads would only wait for each other."""

from __future__ import annotations

import torch
from torch import nn
from torch.distributions import Bernoulli, Categorical, Independent, Normal

from evenroll.policies import MLP, External
from tests.helpers import BOX, DISCRETE, MULTI

torch.set_num_threads(1)


class Head(nn.Module):
    """A network whose forward gives whatever `make` makes of its last layer."""

    def __init__(self, inputs: int, outputs: int, make, activation=nn.Tanh, width: int = 16) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(inputs, width), activation(), nn.Linear(width, outputs))
        self.log_std = nn.Parameter(torch.full((outputs,), -0.5))
        self.make = make

    def forward(self, x):
        return self.make(self.net(x), self.log_std)


def logits(out, _):
    return out


def categorical(out, _):
    return Categorical(logits=out)


def normal(out, log_std):
    return Normal(out, log_std.exp())


def independent(out, log_std):
    return Independent(Normal(out, log_std.exp().expand_as(out)), 1)


def bernoulli(out, _):
    return Bernoulli(logits=out)


def own_scale(out, _):
    return Normal(out[:, ::2], torch.nn.functional.softplus(out[:, 1::2]) + 0.1)


KINDS = {
    "logits": (DISCRETE, 3, logits, MLP),
    "categorical": (DISCRETE, 3, categorical, MLP),
    "normal": (BOX, 2, normal, MLP),
    "independent": (BOX, 2, independent, MLP),
    "own scale": (BOX, 4, own_scale, External),
    "multi-discrete": (MULTI, 5, logits, External),
}
