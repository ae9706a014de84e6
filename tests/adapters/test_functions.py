"""Functions of one observation: probabilities, distributions, actions, and those that are no functions at all."""

from __future__ import annotations

import random

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch.distributions import Categorical, Independent, Normal, TanhTransform, TransformedDistribution

import evenroll
from evenroll.adapters.functions import as_plain
from evenroll.adapters.model import as_model
from evenroll.collection.environments import collect
from evenroll.errors import PolicyError
from evenroll.evaluation.collector import Collector
from tests.helpers import BOX, DISCRETE, MULTI, Walk

TWO = gym.spaces.Discrete(2)


def collected(policy, env: gym.Env, episodes: int = 20) -> Collector:
    collector = Collector(policy, observation_space=env.observation_space, action_space=env.action_space)
    for _ in collect(collector, env, episodes=episodes):
        pass
    return collector


# ---- functions that are none ---------------------------------------------------------------------------------------


def test_a_function_that_draws_is_not_called_deterministic() -> None:
    """It is run as it is. Before, it was said to be deterministic."""
    rng = np.random.default_rng(0)
    result = evenroll.evaluate(Walk(TWO), lambda x: int(rng.random() < 0.5), episodes=50)
    assert (result.policy, result.sampler) == ("<lambda>, which draws its own actions", "os")
    assert result.remark.startswith("the policy draws its own actions")
    assert "deterministic" not in result.remark
    assert result.half_width > 0
    seldom = np.random.default_rng(1)
    result = evenroll.evaluate(Walk(TWO), lambda x: int(seldom.random() < 0.02), episodes=5)
    assert "draws its own actions" in result.policy


def test_what_only_the_run_shows_is_found_by_the_run() -> None:
    """Beyond the probes the function draws. Asked again about what it met, it gives itself away."""
    rng = np.random.default_rng(0)

    class Far(Walk):
        def _look(self):
            return super()._look() + np.float32(1e6)

    with pytest.raises(PolicyError, match="is not deterministic"):
        evenroll.evaluate(Far(TWO), lambda x: int(rng.random() < 0.5) if x[0] > 1e5 else 0, episodes=20)


def test_probabilities_that_change_are_refused() -> None:
    rng, calls = np.random.default_rng(0), [0]

    def noisy(x):
        p = rng.uniform(0.4, 0.6)
        return [p, 1.0 - p]

    def remembers(x):
        calls[0] += 1
        p = 0.5 + 0.4 * np.tanh(0.01 * calls[0])
        return np.array([p, 1.0 - p])

    for function in (noisy, remembers):
        with pytest.raises(PolicyError, match="other probabilities when it is asked again"):
            evenroll.evaluate(Walk(TWO), function, episodes=3)


def test_random_numbers_of_others_are_left_as_they_were() -> None:
    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    before = random.getstate(), np.random.get_state()[1].copy(), torch.random.get_rng_state()

    def draws(x):
        return (random.random() + np.random.random() + float(torch.rand(()))) < 1.5

    as_model(draws, Walk(TWO).observation_space, TWO)
    assert random.getstate() == before[0]
    np.testing.assert_array_equal(np.random.get_state()[1], before[1])
    assert torch.equal(torch.random.get_rng_state(), before[2])


# ---- what a function may give --------------------------------------------------------------------------------------


def _p(x) -> float:
    return float(1.0 / (1.0 + np.exp(-x[0])))


@pytest.mark.parametrize(
    "give",
    [
        lambda x: Categorical(probs=torch.tensor([1.0 - _p(x), _p(x)], dtype=torch.float64)),
        lambda x: Categorical(probs=torch.tensor([[1.0 - _p(x), _p(x)]], dtype=torch.float64)),
        lambda x: torch.tensor([1.0 - _p(x), _p(x)], dtype=torch.float64, requires_grad=True),
        lambda x: (1.0 - _p(x), _p(x)),
    ],
)
def test_all_kinds_of_results_are_the_same_policy(give) -> None:
    def plain(x):
        return [1.0 - _p(x), _p(x)]

    a, b = (collected(f, Walk(TWO)).rollouts() for f in (give, plain))
    np.testing.assert_array_equal(a.actions, b.actions)
    np.testing.assert_allclose(a.log_e, b.log_e, atol=1e-6)


def test_brain_floats() -> None:
    def give(x):
        return torch.tensor([0.25, 0.75], dtype=torch.bfloat16)

    np.testing.assert_allclose(np.unique(collected(give, Walk(TWO)).rollouts().log_e), np.log([0.25, 0.75]))
    np.testing.assert_array_equal(as_plain(torch.tensor([1.5], dtype=torch.bfloat16)), [1.5])


def test_arrays_of_jax() -> None:
    jnp = pytest.importorskip("jax.numpy")
    data = collected(lambda x: jnp.array([0.25, 0.75]), Walk(TWO)).rollouts()
    np.testing.assert_allclose(np.unique(data.log_e), np.log([0.25, 0.75]), atol=1e-6)


@pytest.mark.parametrize("independent", [False, True])
def test_a_function_that_gives_a_gaussian(independent: bool) -> None:
    def give(x):
        made = Normal(torch.tensor([0.1 * x[0], -0.2]), torch.tensor([0.5, 0.3]))
        return Independent(made, 1) if independent else made

    data = collected(give, Walk(BOX)).rollouts()
    theirs = [float(give(x).log_prob(torch.tensor(a)).sum()) for x, a in zip(data.observations, data.actions, strict=True)]
    np.testing.assert_allclose(data.log_e, theirs, atol=1e-4)


def test_what_a_function_draws_outside_the_bounds_is_told() -> None:
    """A Gaussian before a squash that the function does not tell, as Tianshou's SAC has it."""
    wide = evenroll.evaluate(Walk(BOX), lambda x: Normal(torch.zeros(2), 3.0 * torch.ones(2)), episodes=10)
    assert "of the actions were drawn outside the bounds of the action space, and clipped to them" in wide.in_words()
    assert "TanhTransform()" in str(wide.remark)


def test_a_function_that_gives_a_squashed_gaussian() -> None:
    env = Walk(gym.spaces.Box(-1.0, 1.0, (2,)))
    collector = collected(lambda x: TransformedDistribution(Normal(torch.zeros(2), torch.ones(2)), [TanhTransform()]), env)
    np.testing.assert_allclose(np.array(env.seen), np.tanh(collector.rollouts().actions), atol=1e-6)
    assert collector.model.described == "<lambda>, 3 features, squashed"


def test_several_discrete_actions() -> None:
    """Their probabilities one after the other; whole numbers are an action."""
    data = collected(lambda x: [0.25, 0.75, 0.2, 0.3, 0.5], Walk(MULTI)).rollouts()
    p = np.array([0.25, 0.75])[data.actions[:, 0].astype(int)] * np.array([0.2, 0.3, 0.5])[data.actions[:, 1].astype(int)]
    np.testing.assert_allclose(np.exp(data.log_e), p, rtol=1e-6)
    assert evenroll.evaluate(Walk(MULTI), lambda x: [1, 2], episodes=3).policy == "deterministic <lambda>"
    with pytest.raises(PolicyError, match="sum to 1 for each of 2 actions"):
        evenroll.evaluate(Walk(MULTI), lambda x: [0.5, 0.5, 0.5, 0.5, 0.5], episodes=3)


def test_what_is_neither_says_what_to_do() -> None:
    for space, result, text in (
        (DISCRETE, 0.5, "return 3 probabilities"),
        (BOX, [1.0, 2.0, 3.0], "an action of 2 numbers, torch.distributions.Normal"),
        (DISCRETE, "left", "neither probabilities nor an action"),
        (DISCRETE, None, "neither probabilities nor an action"),
    ):
        with pytest.raises(PolicyError, match=text):
            evenroll.evaluate(Walk(space), lambda x, result=result: result, episodes=3)
    with pytest.raises(PolicyError, match="failed on observation"):
        evenroll.evaluate(Walk(DISCRETE), lambda x: 1 / 0, episodes=3)


def test_a_function_sees_states_by_the_environments_numbers() -> None:
    """States are numbered from 7 on: the function is asked about 7, 8 and 9, and about nothing else."""
    asked = set()

    def give(state):
        asked.add(int(state))
        return [state / 10.0, 1.0 - state / 10.0]

    model = as_model(give, gym.spaces.Discrete(3, start=7), gym.spaces.Discrete(2))
    np.testing.assert_allclose(model.engine.table[:, 0], [0.7, 0.8, 0.9], atol=1e-12)
    assert asked == {7, 8, 9}
