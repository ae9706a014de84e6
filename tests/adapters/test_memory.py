"""Policies that remember: a state for each lane, forgotten when an episode begins, saved and taken up again."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import nn
from torch.distributions import Categorical, Normal

from evenroll.adapters.model import as_model
from evenroll.collection.environments import collect
from evenroll.collection.rollouts import Rollouts
from evenroll.collection.seeing import see
from evenroll.errors import PolicyError
from evenroll.evaluation.collector import Collector
from tests.helpers import Walk

torch.set_num_threads(1)  # small networks: threads only wait for each other

DISCRETE, BOX = gym.spaces.Discrete(3), gym.spaces.Box(-5.0, 5.0, (2,))


class Gru(nn.Module):
    """Takes its state and gives it back, as one tensor with the lanes first."""

    def __init__(self, real: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.cell, self.head, self.real = nn.GRUCell(3, 8), nn.Linear(8, 2 if real else 3), real

    def step(self, x, state):
        state = self.cell(x, state)
        out = self.head(state)
        return Normal(out, 0.5) if self.real else Categorical(logits=3.0 * out), state


class Lstm(nn.Module):
    """A `forward` that takes a state: two tensors with the lanes in the middle."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.lstm, self.head = nn.LSTM(3, 8, num_layers=2), nn.Linear(8, 3)

    def forward(self, x, hidden=None):
        out, hidden = self.lstm(x[None], hidden)
        return 3.0 * self.head(out[0]), hidden

    def step_by_step(self, x, state):
        out, state = self(x, state)
        return Categorical(logits=out), state


class Agent(nn.Module):
    """CleanRL's recurrent agent."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.network, self.lstm = nn.Linear(3, 8), nn.LSTM(8, 16)
        self.actor, self.critic = nn.Linear(16, 3), nn.Linear(16, 1)

    def get_action_and_value(self, x, lstm_state, done, action=None):
        hidden = torch.tanh(self.network(x))
        keep = (1.0 - done).view(1, -1, 1)
        hidden, lstm_state = self.lstm(hidden[None], (keep * lstm_state[0], keep * lstm_state[1]))
        probs = Categorical(logits=3.0 * self.actor(hidden[0]) / 3.0)
        if action is None:
            action = probs.sample()
        return action, probs.log_prob(action), probs.entropy(), self.critic(hidden[0]), lstm_state

    def step_by_step(self, x, state):
        zeros = torch.zeros(1, len(x), 16)
        out = self.get_action_and_value(x, state or (zeros, zeros), torch.zeros(len(x)), torch.zeros(len(x)).long())
        hidden = out[-1][0][0]
        return Categorical(logits=self.actor(hidden)), out[-1]


def recurrent_ppo() -> Any:
    contrib = pytest.importorskip("sb3_contrib")
    return contrib.RecurrentPPO("MlpLstmPolicy", Walk(DISCRETE), n_steps=16, batch_size=16, device="cpu", seed=0)


def of_recurrent_ppo(model: Any, x, state):
    n = len(x)
    if state is None:
        state = (torch.zeros(1, n, 256), torch.zeros(1, n, 256))
    result, state = model.policy.get_distribution(x, state, torch.zeros(n))
    return result.distribution, state


KINDS = {
    "step": (Gru, lambda policy: policy.step, DISCRETE),
    "step of real actions": (lambda: Gru(real=True), lambda policy: policy.step, BOX),
    "forward with a state": (Lstm, lambda policy: policy.step_by_step, DISCRETE),
    "agent": (Agent, lambda policy: policy.step_by_step, DISCRETE),
    "model": (recurrent_ppo, lambda policy: lambda x, state: of_recurrent_ppo(policy, x, state), DISCRETE),
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> tuple[Any, Any, gym.Space]:
    make, step, space = KINDS[request.param]
    policy = make()
    return policy, step(policy), space


def by_hand(step: Any, data: Rollouts, space: gym.Space) -> np.ndarray:
    """log π of every step, with the policy run through each episode by itself."""
    result, start = [], 0
    with torch.no_grad():
        for length in data.all_lengths:
            state = None
            for t in range(start, start + int(length)):
                x, a = (torch.as_tensor(part[t : t + 1], dtype=torch.float32) for part in (data.observations, data.actions))
                distribution, state = step(x, state)
                result.append(float(distribution.log_prob(a if space is BOX else a[:, 0]).sum()))
            start += int(length)
    return np.array(result)


def collector_for(policy: Any, space: gym.Space, lanes: int | None = None) -> Collector:
    return Collector(policy, lanes=lanes, observation_space=Walk(space).observation_space, action_space=space)


class Uneven(Walk):
    """Episodes of different lengths, so that lanes begin anew at different times."""

    def reset(self, **options):
        observation, info = super().reset(**options)
        self.length = int(self.np_random.integers(2, 9))
        return observation, info


@pytest.mark.parametrize("lanes", [None, 3])
def test_every_lane_has_a_state_of_its_own_that_ends_with_the_episode(kind, lanes: int | None) -> None:
    """log π_e is what the policy gives when it is run through each episode alone, also when the data is read again."""
    policy, step, space = kind
    collector = collector_for(policy, space, lanes)
    env = Uneven(space) if lanes is None else gym.vector.SyncVectorEnv([lambda: Uneven(space)] * lanes)
    for _ in collect(collector, env, episodes=12):
        pass
    data = collector.rollouts()
    expected = by_hand(step, data, space)
    np.testing.assert_allclose(data.log_e, expected, atol=1e-4)
    np.testing.assert_allclose(see(collector.model, data).log_e, expected, atol=1e-4)
    assert np.abs(data.log_b - data.log_e).max() > 1e-4
    assert np.std([len(x) for x in np.split(data.log_e, data.ends[:-1])]) > 0
    assert "recurrent" in collector.result().policy
    collector.close()


def test_it_goes_on_where_it_was_saved(kind, tmp_path) -> None:
    """In the middle of an episode: the state comes back with the file."""
    policy, step, space = kind
    rng = np.random.default_rng(0)
    seen = rng.normal(size=(20, 3)).astype(np.float32)

    def run(collector: Collector, steps: range) -> None:
        for t in steps:
            collector.act(seen[t])
            collector.observe(1.0, t % 7 == 6)

    whole, first, second = (collector_for(policy, space) for _ in range(3))
    run(whole, range(20))
    run(first, range(10))
    first.save(tmp_path / "half.safetensors")
    second.resume(tmp_path / "half.safetensors")
    second.go_on()
    run(second, range(10, 20))
    np.testing.assert_array_equal(second.rollouts().actions, whole.rollouts().actions)
    np.testing.assert_allclose(whole.rollouts().log_e, by_hand(step, whole.rollouts(), space), atol=1e-4)


def test_the_likeliest_action_remembers_too() -> None:
    module, env = Gru(), Uneven(DISCRETE)
    collector = Collector(module, observation_space=env.observation_space, action_space=DISCRETE, deterministic=True)
    for _ in collect(collector, env, episodes=5):
        pass
    data, start = collector.rollouts(), 0
    for length in data.lengths:
        state = None
        for t in range(start, start + int(length)):
            distribution, state = module.step(torch.as_tensor(data.observations[t : t + 1], dtype=torch.float32), state)
            assert int(distribution.logits.argmax()) == data.actions[t, 0]
        start += int(length)
    assert collector.result().policy == "deterministic Gru, recurrent"


def test_states_that_cannot_be_kept_are_refused() -> None:
    class Common(Gru):
        def step(self, x, state):
            return Categorical(logits=self.head(self.cell(x))), torch.zeros(4)

    class Nothing(Gru):
        def step(self, x, state):
            return self.head(self.cell(x)), {"h": x}

    class Needy(Gru):
        def step(self, x, state):
            return self.head(self.cell(x, 2.0 * state)), state

    for module, text in ((Common(), "one row for each"), (Nothing(), "a dict"), (Needy(), "None at the start")):
        with pytest.raises(PolicyError, match=text):
            as_model(module, Walk(DISCRETE).observation_space, DISCRETE)
