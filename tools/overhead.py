"""What balancing costs: wall time per step of `auto` over plain on-policy collection of the same torch policy.

    python tools/overhead.py            # ratios at 1 and 64 environments, and steps/s of a compiled MLP on CartPole-v1

Plain collection is what people write: a forward pass, `sample`, `log_prob`, `step`, and the step kept. Both ways take turns
in short blocks, so that other work on the machine hits both. The median of the blocks' ratios counts.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from statistics import median

import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

from evenroll.evaluation.collector import Collector


class Network(nn.Module):
    """64-64 with layer norm, so that it is not recognised as an MLP and runs through torch."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 64), nn.LayerNorm(64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        self.head = nn.Linear(64, 2)

    def forward(self, x: torch.Tensor) -> Categorical:
        return Categorical(logits=self.head(self.body(x)))


def environments(n: int) -> gym.vector.VectorEnv | gym.Env:
    make = lambda: gym.make("CartPole-v1")  # noqa: E731
    return make() if n == 1 else gym.vector.SyncVectorEnv([make] * n, autoreset_mode=gym.vector.AutoresetMode.SAME_STEP)


def plain(n: int, module: nn.Module) -> Callable[[int], None]:
    env = environments(n)
    observation, _ = env.reset(seed=0)
    kept: list[tuple] = []

    def run(steps: int) -> None:
        nonlocal observation
        for _ in range(steps):
            with torch.no_grad():
                batch = torch.as_tensor(observation if n > 1 else observation[None], dtype=torch.float32)
                distribution = module(batch)
                actions = distribution.sample()
                log_p = distribution.log_prob(actions)
            chosen = actions.numpy()
            following, reward, terminated, truncated, _ = env.step(chosen if n > 1 else int(chosen[0]))
            kept.append((observation, chosen, reward, log_p.numpy(), terminated, truncated))
            observation = following
            if n == 1 and (terminated or truncated):
                observation, _ = env.reset()

    return run


def balanced(n: int, module: nn.Module) -> Callable[[int], None]:
    env = environments(n)
    observation, _ = env.reset(seed=0)
    space = env.observation_space if n == 1 else env.single_observation_space
    actions = env.action_space if n == 1 else env.single_action_space
    collector = Collector(
        module, "auto", gamma=0.99, observation_space=space, action_space=actions, lanes=None if n == 1 else n
    )

    def run(steps: int) -> None:
        nonlocal observation
        for _ in range(steps):
            observation, reward, terminated, truncated, info = env.step(collector.act(observation))
            over = collector.observe(reward, terminated, truncated, observation if n == 1 else None)
            if n == 1 and over:
                observation, _ = env.reset()

    return run


def ratio(n: int, blocks: int = 15, steps: int = 400) -> tuple[float, float]:
    """(median of the blocks' time ratios, balanced steps/s)."""
    torch.manual_seed(0)
    module = Network().eval()
    ways = plain(n, module), balanced(n, module)
    ratios, rates = [], []
    for way in ways:
        way(steps)
    for _ in range(blocks):
        seconds = []
        for way in ways:
            started = time.perf_counter()
            way(steps)
            seconds.append(time.perf_counter() - started)
        ratios.append(seconds[1] / seconds[0])
        rates.append(n * steps / seconds[1])
    return median(ratios), max(rates)


def compiled(blocks: int = 15, steps: int = 3000) -> tuple[float, float]:
    """(best steps/s of a compiled 64-64 MLP in plain Gymnasium, best steps/s of the bare environment)."""
    rng = np.random.default_rng(0)
    from evenroll.policies import MLP

    layers = [(rng.standard_normal((64, 4)) * 0.3, np.zeros(64)), (rng.standard_normal((64, 64)) * 0.1, np.zeros(64))]
    run = balanced(1, MLP(layers, rng.standard_normal((2, 64)) * 0.1, np.zeros(2), activation="tanh"))
    env = environments(1)
    env.reset(seed=0)
    run(steps)
    ours, bare = [], []
    for _ in range(blocks):
        started = time.perf_counter()
        run(steps)
        middle = time.perf_counter()
        for i in range(steps):
            _, _, terminated, truncated, _ = env.step(i % 2)
            if terminated or truncated:
                env.reset()
        ours.append(steps / (middle - started))
        bare.append(steps / (time.perf_counter() - middle))
    return max(ours), max(bare)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    result = {}
    for n in (1, 64):
        times, rate = ratio(n)
        result[f"ratio_{n}"], result[f"rate_{n}"] = times, rate
        print(f"{n} environments: auto takes {times:.2f}× the time of plain on-policy collection ({rate:,.0f} steps/s)")
    result["compiled"], result["bare"] = compiled()
    print(
        f"compiled MLP in gym.make('CartPole-v1'): {result['compiled']:,.0f} steps/s; the bare environment {result['bare']:,.0f}"
    )
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(result, file, indent=1)


if __name__ == "__main__":
    main()
