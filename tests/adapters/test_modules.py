"""Torch modules: what they give is recognised, and what is no function of its observation is found out."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import nn
from torch.distributions import Normal

import evenroll
from evenroll.adapters.model import as_model
from evenroll.collection.environments import collect
from evenroll.errors import PolicyError
from evenroll.evaluation.collector import Collector
from evenroll.policies import MLP
from tests.helpers import BOX, DISCRETE, MULTI, Walk
from tests.torch_helpers import Head, logits, normal


def mlp(outputs: int, *last: nn.Module, dtype=torch.float32) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, outputs), *last).to(dtype)


# ---- probabilities -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("last", [nn.Softmax(dim=-1), nn.LogSoftmax(dim=-1)])
def test_probabilities_are_not_taken_for_logits(last: nn.Module) -> None:
    """A last softmax leaves the policy what it is. Before, its probabilities went through a second softmax, unsaid."""
    env = Walk(DISCRETE)
    model = as_model(mlp(3, last), env.observation_space, DISCRETE)
    assert isinstance(model.engine, MLP)
    said = "probabilities" if isinstance(last, nn.Softmax) else "logits"
    assert model.described == f"Sequential, a compiled MLP, its outputs read as {said}"
    x = np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32)
    theirs = torch.log_softmax(mlp(3)(torch.as_tensor(x)), dim=1).detach().numpy()
    ours = model.actions.distribution.normalised(model.of_rows(x.astype(np.float64))[1])
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_probabilities_of_several_actions_and_in_half_precision() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = mlp(5)

        def forward(self, x):
            out = self.net(x)
            return torch.cat([out[:, :2].softmax(dim=1), out[:, 2:].softmax(dim=1)], dim=1)

    model = as_model(Two(), Walk(MULTI).observation_space, MULTI)
    assert model.described.endswith("read as probabilities")
    half = as_model(mlp(3, nn.Softmax(dim=-1), dtype=torch.bfloat16), Walk(DISCRETE).observation_space, DISCRETE)
    assert half.described == "Sequential through torch, 16 features, its outputs read as probabilities"
    outputs = half.engine.parameters_of_actions(half.encode(half.observations.probes(5)))
    np.testing.assert_allclose(np.exp(outputs).sum(axis=1), 1.0, atol=0.02)


def test_probabilities_that_stop_being_some_are_refused() -> None:
    class Turns(nn.Module):
        def forward(self, x):
            p = torch.softmax(x, dim=1)
            return torch.where(x[:, :1].abs() > 500.0, 2.0 * p, p)

    class Far(Walk):
        def _look(self):
            return super()._look() + np.array([1000.0, 0.0, 0.0], np.float32)

    with pytest.raises(Exception, match="probabilities at first and are not any more"):
        evenroll.evaluate(Far(DISCRETE), Turns(), episodes=3)


# ---- no functions of their observation -----------------------------------------------------------------------------


class Noisy(nn.Module):
    """Noise inside the network."""

    def __init__(self) -> None:
        super().__init__()
        self.net = mlp(3)

    def forward(self, x):
        return self.net(x + 0.1 * torch.randn_like(x))


class Remembering(nn.Module):
    """A recurrent network made by hand, which keeps its state to itself."""

    def __init__(self) -> None:
        super().__init__()
        self.net, self.state = mlp(3), torch.zeros(3)

    def forward(self, x):
        self.state = 0.9 * self.state + 0.1 * x.mean(dim=0)
        return self.net(x + self.state)


class Mixing(nn.Module):
    """The answer depends on the other observations of the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.net = mlp(3)

    def forward(self, x):
        return self.net(x - x.mean(dim=0))


class Sequence(nn.Module):
    """Takes the batch for a sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(3, 8), nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.lstm(x)[0])


@pytest.mark.parametrize("make", [Noisy, Remembering, Mixing, Sequence])
def test_what_is_no_function_of_its_observation_is_refused(make: type[nn.Module]) -> None:
    """Before, some of these were even replaced by a compiled copy, whose log-probabilities were off by up to 3.9."""
    module = make().train()
    with pytest.raises(PolicyError, match="answers otherwise when it is asked again"):
        evenroll.evaluate(Walk(DISCRETE), module, episodes=3)
    assert module.training


def test_dropout_is_off() -> None:
    """A module left in training mode is evaluated as `eval()` says, and left as it was found."""
    module = nn.Sequential(nn.Linear(3, 16), nn.Dropout(0.5), nn.Linear(16, 3)).train()
    assert evenroll.evaluate(Walk(DISCRETE), module, episodes=3).policy.startswith("Sequential")
    assert module.training


def test_a_draw_is_not_taken_for_a_deterministic_action() -> None:
    class Draws(nn.Module):
        def forward(self, x):
            return Normal(x[:, :2], 1.0).sample()

    with pytest.raises(PolicyError, match="answers otherwise"):
        evenroll.evaluate(Walk(BOX), Draws(), episodes=3, deterministic=True)


# ---- bounds --------------------------------------------------------------------------------------------------------


def test_clipped_actions_are_told() -> None:
    """A Gaussian before a squash that nobody told us of would be clipped: the result says what was done, and what to do."""
    result = evenroll.evaluate(Walk(BOX), Head(3, 2, normal), episodes=40)
    assert "of the actions were drawn outside the bounds of the action space, and clipped to them" in result.remark
    assert "TanhTransform()" in result.remark
    wide = gym.spaces.Box(-1e6, 1e6, (2,), np.float32)
    assert "clipped" not in (evenroll.evaluate(Walk(wide), Head(3, 2, normal), episodes=40).remark or "")


# ---- the likeliest action ------------------------------------------------------------------------------------------


def test_a_tensor_may_be_the_action() -> None:
    env, module = Walk(BOX), Head(3, 2, logits)
    result = evenroll.evaluate(env, module, episodes=3, deterministic=True)
    assert result.policy == "deterministic Head"
    with pytest.raises(PolicyError, match="no action of"):
        evenroll.evaluate(Walk(BOX), Head(3, 3, logits), episodes=3, deterministic=True)


# ---- asked again about what was met --------------------------------------------------------------------------------


class Fickle(nn.Module):
    """An MLP on small observations, something else on those that only the environment knows."""

    def __init__(self, far: float) -> None:
        super().__init__()
        self.net, self.far = mlp(3), far

    def forward(self, x):
        return self.net(x) * torch.where(x[:, :1] > self.far, 3.0, 1.0)


class Rising(Walk):
    """The first number of an observation is the step, times a thousand."""

    def _look(self):
        return super()._look() + np.array([1000.0 * self.t, 0.0, 0.0], np.float32)


def test_the_last_step_is_among_those_compared() -> None:
    """With 64 of 3,000 steps compared, only the last one shows the difference."""
    env = Rising(DISCRETE, length=3000)
    collector = Collector(Fickle(2998.5e3), observation_space=env.observation_space, action_space=DISCRETE)
    for _ in collect(collector, env, episodes=1):
        pass
    assert isinstance(collector.model.engine, MLP)
    with pytest.raises(PolicyError, match="compiled copy disagrees"):
        collector.result()


def test_a_network_that_runs_elsewhere_is_asked_again_too() -> None:
    """It starts to draw where the probes did not look."""

    class Late(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = mlp(5)

        def forward(self, x):
            noise = torch.where(x[:, :1] > 500.0, torch.randn_like(x), torch.zeros_like(x))
            return self.net(x * torch.tensor([0.0, 1.0, 1.0]) + noise)

    with pytest.raises(PolicyError, match="it is no function of its observation"):
        evenroll.evaluate(Rising(MULTI), Late(), episodes=30)


# ---- numbered states -----------------------------------------------------------------------------------------------


class ByNumber(nn.Module):
    """Logits that a state's number decides."""

    def forward(self, x):
        return torch.stack([x.float() / 10.0, -x.float() / 5.0], dim=-1).reshape(len(x), 2)


def test_a_network_sees_states_by_the_environments_numbers() -> None:
    """States are numbered from 7 on: the network is asked about 7, 8 and 9, not about 0, 1 and 2."""
    model = as_model(ByNumber(), gym.spaces.Discrete(3, start=7), gym.spaces.Discrete(2))
    logits = np.array([[n / 10.0, -n / 5.0] for n in (7, 8, 9)])
    np.testing.assert_allclose(model.engine.table, np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True), atol=1e-6)
    assert model.described == "ByNumber, as a table, its outputs read as logits"
