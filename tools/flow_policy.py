"""A small flow policy, trained on CPU: a network that carries Gaussian noise to actions in a few Euler steps.

It imitates a teacher: a partly trained PPO model, whose sampled actions the flow learns to reproduce (flow matching: the
network predicts x₁ − x₀ at x_t = (1 − t) x₀ + t x₁, x₀ ~ Normal(0, 1), x₁ an action of the teacher). So the flow's noise
decides its actions, through a map that is not linear, as in diffusion and flow policies of robots.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import nn

EULER_STEPS = 4  # steps from the noise to the action


class Flow(nn.Module):
    """v(x, t, observation) and the map from noise to actions. Actions are scaled to about ± 1."""

    def __init__(self, observation: int, action: int, scale: np.ndarray) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(observation, 64), nn.Tanh())
        layers = [nn.Linear(64 + action + 1, 128), nn.SiLU(), nn.Linear(128, 128), nn.SiLU(), nn.Linear(128, action)]
        self.net = nn.Sequential(*layers)
        self.register_buffer("scale", torch.as_tensor(scale, dtype=torch.float32))

    def velocity(self, x: torch.Tensor, t: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        return self.net(torch.cat([hidden, x, t], dim=1))

    @torch.inference_mode()
    def act(self, observations: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """Actions [n, action] for observations [n, …] and noise [n, action]."""
        hidden = self.body(torch.as_tensor(observations, dtype=torch.float32))
        x = torch.as_tensor(noise, dtype=torch.float32)
        for i in range(EULER_STEPS):
            t = torch.full((len(x), 1), i / EULER_STEPS)
            x = x + self.velocity(x, t, hidden) / EULER_STEPS
        return (x * self.scale).numpy()

    @torch.inference_mode()
    def features(self, observations: np.ndarray) -> np.ndarray:
        return self.body(torch.as_tensor(observations, dtype=torch.float32)).numpy()


def samples(teacher: Any, env: gym.Env, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """(observations, actions as drawn) of the teacher's own rollouts."""
    seen, done = [], []
    observation, _ = env.reset(seed=0)
    for _ in range(steps):
        action = teacher.predict(observation, deterministic=False)[0]
        seen.append(observation)
        done.append(action)
        observation, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            observation, _ = env.reset()
    return np.array(seen, np.float32), np.array(done, np.float32)


def flow_policy(env: gym.Env, teacher: Any, path: Path, steps: int = 10_000, updates: int = 2_000) -> Flow:
    """The flow from disk, or trained on the teacher's actions and put there."""
    scale = np.maximum(np.abs(env.action_space.low), np.abs(env.action_space.high))  # type: ignore[attr-defined]
    torch.manual_seed(0)
    flow = Flow(env.observation_space.shape[0], env.action_space.shape[0], scale)  # type: ignore[index]
    if path.exists():
        flow.load_state_dict(torch.load(path, weights_only=True))
        return flow.eval()
    seen, done = (torch.as_tensor(x) for x in samples(teacher, env, steps))
    done = done / flow.scale
    optimizer = torch.optim.Adam(flow.parameters(), lr=1e-3)
    for _ in range(updates):
        which = torch.randint(len(seen), (256,))
        start, end, t = torch.randn_like(done[which]), done[which], torch.rand(len(which), 1)
        loss = (flow.velocity((1 - t) * start + t * end, t, flow.body(seen[which])) - (end - start)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.save(flow.state_dict(), path)
    return flow.eval()
