"""CleanRL's agents, beside what they themselves draw and say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch.distributions import Normal

from tests.adapters.test_cleanrl_agents import BOX as SOFT
from tests.adapters.test_cleanrl_agents import SoftActor
from tests.contract.kinds import VECTOR, WIDE, Box, Kind, Own, becomes, squashed, summed, tensors


def soft_actor() -> Kind:
    def make(_: Path) -> Any:
        actor = SoftActor()
        scale, bias = actor.action_scale.numpy(), actor.action_bias.numpy()
        draw = lambda x, state, masks: (becomes(SOFT, actor.get_action(tensors(x))[0].numpy()), None)  # noqa: E731
        return actor, Own(draw, lambda x, rows, state, masks: squashed(*actor(tensors(x)), rows, bias, scale))

    return Kind(make, SOFT)


def cleanrl(policy: Any, space: gym.Space, observations: gym.Space = VECTOR) -> Kind:
    """What `get_action_and_value` itself draws, and says of draws."""

    def make(_: Path) -> Any:
        agent = policy()

        def judge(x: Any, rows: np.ndarray, state: Any, masks: Any) -> Any:
            given = torch.as_tensor(rows if isinstance(space, Box) else rows[:, 0])
            return summed(agent.get_action_and_value(tensors(x), given)[1]), becomes(space, rows), None

        return agent, Own(lambda x, *_: (becomes(space, agent.get_action_and_value(tensors(x))[0].numpy()), None), judge)

    return Kind(make, space, observations)


class RealLstmAgent(torch.nn.Module):
    """CleanRL's recurrent agent with real actions."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.lstm, self.actor_mean, self.critic = torch.nn.LSTM(3, 4), torch.nn.Linear(4, 2), torch.nn.Linear(4, 1)
        self.actor_logstd = torch.nn.Parameter(torch.tensor([[-0.5, 0.2]]))

    def get_action_and_value(self, x: Any, lstm_state: Any, done: Any, action: Any = None) -> Any:
        keep = (1.0 - done).view(1, -1, 1)
        hidden, lstm_state = self.lstm(x[None], (keep * lstm_state[0], keep * lstm_state[1]))
        mean = self.actor_mean(hidden[0])
        probs = Normal(mean, self.actor_logstd.expand_as(mean).exp())
        action = probs.sample() if action is None else action
        return action, probs.log_prob(action).sum(1), probs.entropy().sum(1), self.critic(hidden[0]), lstm_state


def real_lstm_agent() -> Kind:
    def make(_: Path) -> Any:
        agent = RealLstmAgent()

        def ask(x: Any, state: Any, action: Any) -> Any:
            state = (torch.zeros(1, len(x), 4),) * 2 if state is None else state
            return agent.get_action_and_value(tensors(x), state, torch.zeros(len(x)), action)

        def draw(x: Any, state: Any, masks: Any) -> Any:
            action, *_, state = ask(x, state, None)
            return becomes(WIDE, action), state

        def judge(x: Any, rows: np.ndarray, state: Any, masks: Any) -> Any:
            _, said, *_, state = ask(x, state, torch.as_tensor(rows).float())
            return summed(said), becomes(WIDE, rows), state

        return agent, Own(draw, judge)

    return Kind(make, WIDE)
