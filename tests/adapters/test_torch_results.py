"""What torch policies give, read as outputs: against torch's own log-probabilities and samples."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch.distributions import (
    AffineTransform,
    Bernoulli,
    Beta,
    Categorical,
    ComposeTransform,
    ExpTransform,
    Independent,
    Normal,
    OneHotCategorical,
    SigmoidTransform,
    TanhTransform,
    TransformedDistribution,
)

from evenroll.adapters.spaces import Actions
from evenroll.adapters.torch_results import Reading, batch_of_one
from evenroll.errors import PolicyError
from tests.helpers import BOX

N, WIDE = 7, gym.spaces.Box(-100.0, 100.0, (2,), np.float64)
MEAN, SCALE = torch.randn(N, 2, dtype=torch.float64), torch.rand(N, 2, dtype=torch.float64) + 0.1
TRANSFORMS = {
    "tanh": [TanhTransform()],
    "tanh, stretched": [TanhTransform(), AffineTransform(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 0.5]))],
    "shifted, tanh, stretched twice": [
        AffineTransform(0.5, 2.0), TanhTransform(), AffineTransform(1.0, -3.0), AffineTransform(0.0, 2.0),
    ],
    "sigmoid": [SigmoidTransform()],
    "composed": [ComposeTransform([TanhTransform(), AffineTransform(1.0, 2.0)])],
    "affine alone": [AffineTransform(1.0, -2.0)],
}  # fmt: skip


@pytest.mark.parametrize("independent", [False, True])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_transformed_gaussian_is_read_before_its_squash(name: str, independent: bool) -> None:
    """What is played follows torch's distribution: its log-density there is ours, minus the logarithm of the slope."""
    base = Normal(MEAN, SCALE)
    distribution = TransformedDistribution(Independent(base, 1) if independent else base, TRANSFORMS[name])
    reading = Reading(Actions.of(WIDE))
    reading.settle(distribution)
    outputs = reading.outputs(distribution).numpy()
    drawn = np.random.default_rng(0).normal(size=(N, 2))
    played = reading.actions.to_envs(drawn)
    theirs = distribution.log_prob(torch.as_tensor(played))
    theirs = theirs.numpy() if independent else theirs.sum(dim=1).numpy()
    step = 1e-6
    slope = (reading.actions.to_envs(drawn + step) - reading.actions.to_envs(drawn - step)) / (2 * step)
    ours = reading.actions.distribution.log_probs(outputs, drawn) - np.log(np.abs(slope)).sum(axis=1)
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
    np.testing.assert_allclose(reading.actions.from_env(played), drawn, atol=1e-5)


def test_distributions_of_discrete_actions() -> None:
    """Categorical, one-hot, several, and Bernoulli for MultiBinary."""
    logits = torch.randn(N, 5, dtype=torch.float64)
    whole = np.random.default_rng(0).integers(5, size=(N, 1)).astype(float)
    one = Reading(Actions.of(gym.spaces.Discrete(5)))
    expected = Categorical(logits=logits).log_prob(torch.as_tensor(whole[:, 0])).numpy()
    for result in (Categorical(logits=logits), OneHotCategorical(logits=logits), logits):
        one.settle(result)
        out = one.outputs(result)
        np.testing.assert_allclose(one.actions.distribution.log_probs(out.numpy(), whole), expected)
        np.testing.assert_allclose(one.log_probs(out, whole).numpy(), expected)
    binary = Reading(Actions.of(gym.spaces.MultiBinary(5)))
    flags = np.random.default_rng(0).integers(2, size=(N, 5)).astype(float)
    for result in (Bernoulli(logits=logits), Independent(Bernoulli(logits=logits), 1)):
        ours = binary.actions.distribution.log_probs(binary.outputs(result).numpy(), flags)
        np.testing.assert_allclose(ours, Bernoulli(logits=logits).log_prob(torch.as_tensor(flags)).sum(dim=1).numpy())
    several = Reading(Actions.of(gym.spaces.MultiDiscrete([2, 3])))
    parts = [Categorical(logits=logits[:, :2]), Categorical(logits=logits[:, 2:])]
    rows = np.stack([whole[:, 0] % 2, whole[:, 0] % 3], axis=1)
    theirs = sum(part.log_prob(torch.as_tensor(rows[:, i])) for i, part in enumerate(parts))
    np.testing.assert_allclose(several.actions.distribution.log_probs(several.outputs(parts).numpy(), rows), theirs.numpy())


def test_one_observation_is_a_batch_of_one() -> None:
    for made, shape in (
        (Normal(torch.zeros(2), torch.ones(2)), (1, 2)),
        (Normal(torch.zeros(1, 2), torch.ones(2)), (1, 2)),
        (Independent(Normal(torch.zeros(2), torch.ones(2)), 1), (1, 2)),
        (Categorical(logits=torch.zeros(3)), (1, 3)),
        (Categorical(logits=torch.zeros(1, 3)), (1, 3)),
        (Bernoulli(logits=torch.zeros(3)), (1, 3)),
    ):
        batch = batch_of_one(made)
        while isinstance(batch, Independent):
            batch = batch.base_dist
        numbers = batch.loc if isinstance(batch, Normal) else batch.logits
        assert numbers.shape == shape


def test_what_is_not_known_is_refused_with_what_is() -> None:
    reading = Reading(Actions.of(BOX))
    by_state = AffineTransform(0.0, torch.arange(1.0, 1.0 + N)[:, None])
    for result, text in (
        (Beta(SCALE, SCALE), "gives a Beta; known are"),
        ((MEAN, SCALE), "a tuple of Tensor, Tensor: wrap it"),
        (TransformedDistribution(Normal(MEAN, SCALE), [ExpTransform()]), "by ExpTransform; known are"),
        (TransformedDistribution(Normal(MEAN, SCALE), [TanhTransform(), TanhTransform()]), "by TanhTransform"),
        (TransformedDistribution(Beta(SCALE, SCALE), [AffineTransform(0.0, 2.0)]), "a transformed Beta"),
        (TransformedDistribution(Normal(MEAN, SCALE), [TanhTransform(), by_state]), "differently in every state"),
        ({"logits": MEAN}, "gives a dict"),
    ):
        with pytest.raises(PolicyError, match=text):
            reading.outputs(result)


def test_values_beside_the_distribution_are_left_out() -> None:
    """Actor-critic networks give both: a distribution and tensors, or logits and one number for each observation."""
    discrete, logits = Actions.of(gym.spaces.Discrete(3)), torch.randn(N, 3)
    for given in ((Categorical(logits=logits), torch.zeros(N, 1)), (logits, torch.zeros(N)), (logits, torch.zeros(N, 1))):
        reading = Reading(discrete)
        reading.settle(given)
        np.testing.assert_allclose(reading.outputs(given).log_softmax(dim=1), logits.log_softmax(dim=1), atol=1e-6)
    reading, given = Reading(Actions.of(gym.spaces.Box(0.0, 1.0, (2,)))), (Beta(SCALE, SCALE), torch.zeros(N))
    reading.settle(given)
    assert reading.described(given).shape == (N, 4)
    for given, actions, text in (
        ((logits, logits), discrete, "a tuple of Tensor, Tensor"),
        ((MEAN, SCALE), Actions.of(WIDE), r"Normal\(mean, log_scale\.exp\(\)\)"),
        (logits.argmax(dim=1), discrete, "one number for each observation, an action it seems"),
    ):
        with pytest.raises(PolicyError, match=text):
            Reading(actions).settle(given) or Reading(actions).outputs(given)


def test_one_hot_actions_of_a_box() -> None:
    box = gym.spaces.Box(0.0, 1.0, (3,), np.float32)
    given = OneHotCategorical(logits=torch.randn(N, 3))
    reading = Reading(Actions.of(box))
    reading.settle(given)
    rows = np.array([[0.0], [2.0]])
    played = reading.actions.to_envs(rows)
    np.testing.assert_array_equal(played, [[1, 0, 0], [0, 0, 1]])
    assert all(box.contains(action) for action in (*played, reading.actions.to_env(rows[1])))
    np.testing.assert_array_equal(reading.actions.from_env(played), rows)
    with pytest.raises(PolicyError, match="do not lie in"):
        Reading(Actions.of(gym.spaces.Box(-1.0, 0.5, (3,)))).settle(given)
