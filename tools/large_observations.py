"""How long `result()` takes, and how much memory, where observations are large: 64 episodes of Humanoid-v5.

    python tools/large_observations.py

The policy is a network with random weights for Humanoid's 348 numbers and 17 real actions, two layers of 256 units, through
torch, as models of Stable-Baselines3 run. Told are the seconds of `result()` by the clock and of the processor (a busy
machine makes only the first longer), the peak of the process before and after it, and the share of episodes kept.
"""

from __future__ import annotations

import argparse
import resource
import time

import gymnasium as gym
import torch
from torch import nn
from torch.distributions import Independent, Normal

from evenroll import Collector
from evenroll.collection.environments import collect


class Actor(nn.Module):
    """Tanh layers and a Gaussian with a scale of its own for each action, as PPO has it."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        layers = [nn.Linear(inputs, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, outputs)]
        self.net, self.log_std = nn.Sequential(*layers), nn.Parameter(torch.full((outputs,), -1.0))

    def forward(self, x: torch.Tensor) -> Independent:
        return Independent(Normal(self.net(x.float()), self.log_std.exp()), 1)


def peak() -> float:
    """The largest memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="Humanoid-v5")
    parser.add_argument("--episodes", type=int, default=64)
    parser.add_argument("--sampler", default="auto")
    parser.add_argument("--repeats", type=int, default=3, help="how often the result is asked for")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    env = gym.make(arguments.env)
    assert env.observation_space.shape is not None
    assert env.action_space.shape is not None
    policy = Actor(env.observation_space.shape[0], env.action_space.shape[0])
    spaces = {"observation_space": env.observation_space, "action_space": env.action_space}
    collector = Collector(policy, arguments.sampler, **spaces)
    for _ in collect(collector, env, episodes=arguments.episodes):
        pass
    before = peak()
    print(f"{arguments.env}, {arguments.episodes} episodes, {collector.steps} steps, {arguments.sampler}", flush=True)
    for _ in range(arguments.repeats):
        clock, used = time.perf_counter(), time.process_time()
        result = collector.result()
        clock, used = time.perf_counter() - clock, time.process_time() - used
        print(
            f"{clock:.2f} s by the clock, {used:.2f} s of the processor; peak {before:.0f} MB before, {peak():.0f} MB after"
        )
    print(result)


if __name__ == "__main__":
    main()
