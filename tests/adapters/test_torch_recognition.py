"""Networks that torch runs are recognised by what they compute, their links included."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from evenroll.adapters.model import as_model
from evenroll.policies import MLP, External
from evenroll.policies.distributions import Categorical, Gaussian

torch = pytest.importorskip("torch")

OBSERVATIONS = gym.spaces.Box(-5.0, 5.0, (3,), np.float64)
ACTIONS = gym.spaces.Box(-1.0, 1.0, (2,), np.float64)


class Squashed(torch.nn.Module):
    """A Gaussian policy whose means go through tanh, and whose scale is the same in all states, or not."""

    def __init__(self, scale_by_state: bool) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.hidden, self.last = torch.nn.Linear(3, 16), torch.nn.Linear(16, 2)
        self.log_std, self.scale_by_state = torch.nn.Parameter(torch.tensor([-0.5, 0.2])), scale_by_state

    def forward(self, x):
        mean = torch.tanh(self.last(torch.tanh(self.hidden(x))))
        scale = self.log_std.exp() * (1.0 + x[:, :1] ** 2 if self.scale_by_state else torch.ones_like(mean))
        return torch.distributions.Normal(mean, scale)


def test_a_squashed_mean_is_compiled_with_its_link() -> None:
    module = Squashed(scale_by_state=False).double()
    model = as_model(module, OBSERVATIONS, ACTIONS)
    assert isinstance(model.engine, MLP)
    assert model.engine.distribution == Gaussian(2, "tanh", "exp")
    rng = np.random.default_rng(4)
    observations, actions = rng.normal(size=(20, 3)), rng.normal(size=(20, 2))
    theirs = module(torch.tensor(observations)).log_prob(torch.tensor(actions)).sum(dim=1).detach().numpy()
    ours = [model.engine.log_prob(o, a) for o, a in zip(observations, actions, strict=True)]
    np.testing.assert_allclose(ours, theirs, atol=1e-4)
    parameters = model.of_rows(observations)[1]
    np.testing.assert_allclose(model.actions.distribution.log_probs(parameters, actions), theirs, atol=1e-4)
    model.check(observations, actions)


def test_a_scale_that_depends_on_the_state_is_not() -> None:
    module = Squashed(scale_by_state=True).double()
    model = as_model(module, OBSERVATIONS, ACTIONS)
    assert isinstance(model.engine, External)
    assert model.engine.distribution == model.actions.distribution == Gaussian(2)


def test_spaces_have_distributions() -> None:
    linear = torch.nn.Linear(3, 5).double()
    model = as_model(linear, OBSERVATIONS, gym.spaces.MultiDiscrete([2, 3]))
    assert model.actions.distribution == model.engine.distribution == Categorical((2, 3))
    decided = as_model(linear, OBSERVATIONS, gym.spaces.MultiDiscrete([2, 3]), deterministic=True)
    x = np.random.default_rng(5).normal(size=(10, 3))
    logits = linear(torch.tensor(x)).detach().numpy()
    expected = np.stack([logits[:, :2].argmax(axis=1), logits[:, 2:].argmax(axis=1)], axis=1)
    np.testing.assert_array_equal(decided.decide(x), expected)


def test_a_copy_may_differ_by_a_ten_thousandth_of_the_outputs_and_one() -> None:
    from evenroll.adapters.torch_module import _close

    b = np.array([[1.0, -3.0]])
    assert _close(b + 3.9e-4, b)
    assert not _close(b + 4.1e-4, b)
    assert not _close(b[:, :1], b)
