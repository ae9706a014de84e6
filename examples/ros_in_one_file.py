"""Robust on-policy sampling (ROS) in one file: Algorithm 1 of the paper, line by line, in PyTorch.

It needs torch and numpy only. It is slow on purpose: every line of the algorithm is one line here. Given the same random
numbers, evenroll's compiled engine must choose the same actions as this file (tests/samplers/test_ros.py).

    python examples/ros_in_one_file.py
"""

import copy
import random

import torch
from torch.distributions import Categorical
from torch.nn.utils import parameters_to_vector, vector_to_parameters


def pick(distribution, u):
    """The action that the uniform number u selects (inverse transform): lets two programs share their luck."""
    if isinstance(distribution, Categorical):
        return (distribution.probs.cumsum(-1)[..., :-1] <= u).sum(-1)
    return distribution.loc + distribution.scale * torch.special.ndtri(torch.as_tensor(u, dtype=torch.float64))


def robust_on_policy_sampling(env, pi_e, alpha, steps, uniform, initial_data=()):
    """Collect `steps` steps. `pi_e` maps a state to a torch distribution; `env` is a Gymnasium environment.

    Returns the finished trajectories' rewards, and every (state, action) chosen.
    """
    theta_e = parameters_to_vector(pi_e.parameters()).detach()
    pi_b = copy.deepcopy(pi_e)  # the behaviour policy: same network, other parameters

    def score(state, action):
        """∇_θ log π_θ(a|s) at θ_e"""
        pi_e.zero_grad()
        pi_e(state).log_prob(action).sum().backward()
        return torch.cat([torch.zeros_like(p).ravel() if p.grad is None else p.grad.ravel() for p in pi_e.parameters()])

    k = len(initial_data)  # line 3
    grad_L = torch.zeros_like(theta_e)  # line 4
    for state, action in initial_data:
        grad_L += score(state, action) / k

    returns, rewards, chosen = [], [], []
    state, _ = env.reset()
    for _ in range(steps):
        vector_to_parameters(theta_e - alpha * grad_L, pi_b.parameters())  # line 9:  θ_b ← θ_e − α ∇L
        with torch.no_grad():
            action = pick(pi_b(state), uniform())  # line 10: a ~ π_θb(·|s)
        grad_L = k / (k + 1) * grad_L + 1 / (k + 1) * score(state, action)  # line 11
        k = k + 1  # line 12
        chosen.append((state, action))
        state, reward, terminated, truncated, _ = env.step(action.numpy())  # line 13
        rewards.append(reward)
        if terminated or truncated:  # line 15: the trajectory joins the data
            returns.append(rewards)
            rewards = []
            state, _ = env.reset()
    return returns, chosen


class Table(torch.nn.Module):
    """π(a|s) ∝ exp θ[s, a]."""

    def __init__(self, logits):
        super().__init__()
        self.logits = torch.nn.Parameter(torch.as_tensor(logits, dtype=torch.float64))

    def forward(self, state):
        return Categorical(logits=self.logits[int(state)])


class Corridor:
    """Five cells in a row, start in the middle; leaving on the right is worth 1, on the left 0."""

    def reset(self):
        self.cell = 2
        return self.cell, {}

    def step(self, action):
        self.cell += 1 if action == 1 else -1
        return self.cell, float(self.cell == 5), self.cell in (-1, 5), False, {}


if __name__ == "__main__":
    # The value is the chance to leave on the right: the gambler's ruin, 3 steps from one end, 3 from the other.
    policy = Table([[0.0, 0.4]] * 5)
    p = float(policy(0).probs[1].detach())
    odds = (1 - p) / p
    truth = (1 - odds**3) / (1 - odds**6)
    print(f"true value {truth:.4f}; error of the mean return over 2,000 steps:")
    for name, alpha in (("on-policy (α = 0)", 0.0), ("ROS (α = 1000)", 1000.0)):
        errors = []
        for seed in range(10):
            data, _ = robust_on_policy_sampling(Corridor(), policy, alpha, 2000, random.Random(seed).random)
            errors.append(sum(map(sum, data)) / len(data) - truth)
        print(f"  {name:18} {(sum(e * e for e in errors) / len(errors)) ** 0.5:.4f}")
