"""Agents in the style of CleanRL, as they are: no `forward`, no distribution, only what a training script needs."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import nn
from torch.distributions import Categorical, Normal

import evenroll
from evenroll.adapters.model import as_model
from evenroll.collection.environments import collect
from evenroll.collection.rollouts import Rollouts
from evenroll.errors import PolicyError
from evenroll.evaluation.collector import Collector
from evenroll.policies import MLP
from tests.helpers import Walk

DISCRETE, BOX = gym.spaces.Discrete(3), gym.spaces.Box(np.float32([-1, 0]), np.float32([3, 0.5]))


class Agent(nn.Module):
    """Proximal policy optimisation with discrete actions."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.critic = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
        self.actor = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 3))

    def get_action_and_value(self, x, action=None):
        probs = Categorical(logits=self.actor(x))
        if action is None:
            action = probs.sample()
        return action, probs.log_prob(action), probs.entropy(), self.critic(x)

    def get_value(self, x):
        return self.critic(x)


class ImageAgent(nn.Module):
    """The same for images: a common network, and the input scaled on its way."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.network = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 16), nn.ReLU())
        self.actor, self.critic = nn.Linear(16, 3), nn.Linear(16, 1)

    def get_action_and_value(self, x, action=None):
        hidden = self.network(x / 255.0)
        probs = Categorical(logits=self.actor(hidden))
        if action is None:
            action = probs.sample()
        return action, probs.log_prob(action), probs.entropy(), self.critic(hidden)


class RealAgent(nn.Module):
    """Real actions, whose scale is the same in all states."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.critic = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
        self.actor_mean = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
        self.actor_logstd = nn.Parameter(torch.tensor([[-0.5, 0.2]]))

    def get_action_and_value(self, x, action=None):
        mean = self.actor_mean(x)
        probs = Normal(mean, torch.exp(self.actor_logstd.expand_as(mean)))
        if action is None:
            action = probs.sample()
        return action, probs.log_prob(action).sum(1), probs.entropy().sum(1), self.critic(x)


class SoftActor(nn.Module):
    """The actor of soft actor-critic."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.fc, self.fc_mean, self.fc_logstd = nn.Linear(3, 16), nn.Linear(16, 2), nn.Linear(16, 2)
        self.register_buffer("action_scale", torch.tensor((BOX.high - BOX.low) / 2))
        self.register_buffer("action_bias", torch.tensor((BOX.high + BOX.low) / 2))

    def forward(self, x):
        x = torch.relu(self.fc(x))
        return self.fc_mean(x), -5 + 0.5 * 7 * (torch.tanh(self.fc_logstd(x)) + 1)

    def get_action(self, x):
        mean, log_std = self(x)
        normal = Normal(mean, log_std.exp())
        drawn = normal.rsample()
        y = torch.tanh(drawn)
        log_prob = normal.log_prob(drawn) - torch.log(self.action_scale * (1 - y.pow(2)) + 1e-6)
        return y * self.action_scale + self.action_bias, log_prob.sum(1, keepdim=True), mean


def collected(policy, env: gym.Env) -> tuple[Collector, Rollouts]:
    collector = Collector(
        policy, observation_space=env.observation_space, action_space=env.action_space, keep_observations=True
    )
    for _ in collect(collector, env, episodes=20):
        pass
    return collector, collector.rollouts()


@pytest.mark.parametrize(
    ("agent", "env", "compiled"),
    [
        (Agent(), Walk(DISCRETE), True),
        (ImageAgent(), Walk(DISCRETE, shape=(1, 8, 8), dtype=np.uint8), False),
        (RealAgent(), Walk(BOX), True),
    ],
    ids=["discrete", "images", "real"],
)
def test_log_probabilities_are_the_agents_own(agent: nn.Module, env: Walk, compiled: bool) -> None:
    collector, data = collected(agent, env)
    assert isinstance(collector.model.engine, MLP) is compiled
    x = torch.as_tensor(data.observations.reshape(-1, *env.observation_space.shape), dtype=torch.float32)
    actions = torch.as_tensor(data.actions, dtype=torch.float32)
    with torch.no_grad():
        theirs = agent.get_action_and_value(x, actions if env.action_space is BOX else actions[:, 0].long())[1]
    np.testing.assert_allclose(data.log_e, theirs.numpy(), atol=1e-4)
    assert np.abs(data.log_b - data.log_e).max() > 1e-3
    collector.result()


def test_a_squashed_actor_plays_and_says_what_it_does_itself() -> None:
    """The same drawn numbers give the same actions; log π differs by the slope of the squash."""
    actor, env = SoftActor(), Walk(BOX)
    collector, data = collected(actor, env)
    x, drawn = (torch.as_tensor(a, dtype=torch.float32) for a in (data.observations, data.actions))
    with torch.no_grad():
        mean, log_std = actor(x)
        normal = Normal(mean, log_std.exp())
        y = torch.tanh(drawn)
        np.testing.assert_allclose(data.log_e, normal.log_prob(drawn).sum(1).numpy(), atol=1e-4)
        np.testing.assert_allclose(np.array(env.seen), (y * actor.action_scale + actor.action_bias).numpy(), atol=1e-5)
    assert collector.model.described == "SoftActor through torch, 16 features, squashed"
    assert collector.result().remark is None or "clipped" not in collector.result().remark
    likeliest = as_model(actor, env.observation_space, BOX, deterministic=True)
    probes = likeliest.observations.probes(5)
    with torch.no_grad():
        expected = torch.tanh(actor(torch.as_tensor(probes))[0]) * actor.action_scale + actor.action_bias
    np.testing.assert_allclose(likeliest.decide(probes), expected.numpy(), atol=1e-6)


def test_agents_that_do_something_else_are_refused() -> None:
    class Hot(Agent):
        """Not what its actor says: a temperature comes in between."""

        def get_action_and_value(self, x, action=None):
            probs = Categorical(logits=self.actor(x) / 0.5)
            return action, probs.log_prob(action), probs.entropy(), self.critic(x)

    class Other(Agent):
        def get_action_and_value(self, x, memory, action=None):
            raise AssertionError

    class Headless(Agent):
        def __init__(self) -> None:
            super().__init__()
            self.policy = self.actor
            del self.actor

    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Linear(3, 3)

        def act(self, x):
            return self.net(x).argmax(dim=1)

    for agent, text in (
        (Hot(), "other log-probabilities than its actor"),
        (Other(), r"takes x, memory, action: known is \(x, action\)"),
        (Headless(), "neither `actor`"),
        (Plain(), "has no forward: wrap it in a torch.nn.Module"),
    ):
        with pytest.raises(PolicyError, match=text):
            evenroll.evaluate(Walk(DISCRETE), agent, episodes=3)


def test_the_agents_own_critic() -> None:
    """`get_value(x)` is the model's critic; an agent without it has none."""
    agent, walk = Agent(), Walk(DISCRETE)
    model = as_model(agent, walk.observation_space, DISCRETE)
    x = model.observations.probes(5)
    with torch.no_grad():
        theirs = agent.critic(torch.as_tensor(x)).numpy()[:, 0]
    np.testing.assert_allclose(model.critic(x), theirs, atol=1e-6)
    assert as_model(RealAgent(), walk.observation_space, BOX).critic is None
