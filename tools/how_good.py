"""How much balancing gains on real tasks: the MSE of `auto` relative to Var/n, beside its floor.

The policies are partly trained PPO models of Stable-Baselines3.

    python tools/how_good.py --tasks CartPole-v1 --episodes 64 --repeats 100 --json how_good.json

Var and the truth come from one long on-policy run. The floor is the share of the variance that stays if all luck of the
actions is removed. It is the variance between starts, of rollouts that are repeated from the same starts, divided by the
variance of all rollouts.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3 import PPO

from evenroll.adapters.model import Model, as_model
from evenroll.adapters.start_seeds import start_seed
from evenroll.collection.environments import collect
from evenroll.evaluation.collector import Collector

TASKS = {  # environment: (training steps, γ, on-policy episodes for the truth)
    "CartPole-v1": (6_000, 0.99, 20_000),
    "Acrobot-v1": (25_000, 0.99, 5_000),
    "Pendulum-v1": (30_000, 0.99, 10_000),
    "MountainCarContinuous-v0": (6_000, 0.99, 2_000),
    "InvertedPendulum-v5": (8_000, 0.99, 20_000),
    "Hopper-v5": (30_000, 0.99, 10_000),
}
OTHERS = {
    "InvertedDoublePendulum-v5": (15_000, 0.99, 20_000),
    "Reacher-v5": (30_000, 0.99, 10_000),
}  # not tuned on, not named


def trained(task: str, steps: int, where: Path) -> PPO:
    """A policy from disk, or trained and put there."""
    path = where / f"{task}.zip"
    if not path.exists():
        model = PPO("MlpPolicy", task, seed=0, n_steps=1024, device="cpu")
        model.learn(steps)
        model.save(path)
    return PPO.load(path, device="cpu")


def run(env: gym.Env, model: Model, sampler: str, gamma: float, seed: int, episodes: int) -> tuple[Collector, np.ndarray]:
    """(collector, returns) of one run."""
    collector = Collector(model, sampler, gamma=gamma, seed=seed)
    for _ in collect(collector, env, episodes=episodes):
        pass
    return collector, collector.rollouts().returns


def floor(env: gym.Env, model: Model, gamma: float, starts: int = 200, repeats: int = 8) -> float:
    """Between-start share of the variance: one-way analysis of variance on rollouts from the same environment seeds."""
    groups = np.empty((starts, repeats))
    for j in range(repeats):
        collector = Collector(model, "os", gamma=gamma, seed=10_000_000 + j)
        for i in range(starts):
            observation, _ = env.reset(seed=start_seed(10_000_000, i))
            over = False
            while not over:
                observation, reward, terminated, truncated, _ = env.step(collector.act(observation))
                over = collector.observe(reward, terminated, truncated)
        groups[:, j] = collector.rollouts().returns
    within = groups.var(axis=1, ddof=1).mean()
    between = groups.mean(axis=1).var(ddof=1) - within / repeats
    return float(max(between, 0.0) / (max(between, 0.0) + within))


def study(
    task: str, model: PPO, gamma: float, truths: int, sizes: list[int], repeats: int, samplers: list[str]
) -> list[dict]:
    """A record per size. Runs go to the largest; the smaller ones are their beginnings."""
    env = gym.make(task)
    ours = as_model(model, env.observation_space, env.action_space)
    _, long = run(env, ours, "os", gamma, 999_983, truths)
    value, variance = float(long.mean()), float(long.var(ddof=1))
    known = {"task": task, "policy": ours.described, "value": value, "value_se": (variance / len(long)) ** 0.5,
             "variance": variance, "repeats": repeats, "floor": floor(env, ours, gamma)}  # fmt: skip
    results = [{**known, "episodes": size} for size in sizes]
    for sampler in samplers:
        started, errors, divergence = time.perf_counter(), np.empty((repeats, len(sizes))), []
        for repeat in range(repeats):
            collector, returns = run(env, ours, sampler, gamma, repeat, max(sizes))
            errors[repeat] = [returns[:size].mean() - value for size in sizes]
            divergence.append(collector.stepper.divergence.kl if collector.stepper else 0.0)
        for i, size in enumerate(sizes):
            squares = np.square(errors[:, i]) - variance / len(long)  # the truth has an error of its own
            results[i][sampler] = {
                "ratio": float(squares.mean() / (variance / size)),
                "ratio_se": float(squares.std(ddof=1) / repeats**0.5 / (variance / size)),
                "bias": float(errors[:, i].mean() / np.sqrt(np.square(errors[:, i]).mean())),
                "kl": float(np.mean(divergence)),
                "seconds": round(time.perf_counter() - started, 1),
            }
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=[*TASKS, *OTHERS])
    parser.add_argument("--episodes", nargs="+", type=int, default=[64, 256])
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--truth", type=float, default=1.0, help="factor on the episodes of the truth")
    parser.add_argument("--samplers", nargs="+", default=["auto"])
    parser.add_argument("--policies", type=Path, default=Path("policies"), help="where trained policies are kept")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", category=UserWarning)
    torch.set_num_threads(1)
    arguments.policies.mkdir(exist_ok=True)
    results = []
    for task in arguments.tasks:
        steps, gamma, truth = {**TASKS, **OTHERS}[task]
        model = trained(task, steps, arguments.policies)
        truths = int(truth * arguments.truth)
        for found in study(task, model, gamma, truths, arguments.episodes, arguments.repeats, arguments.samplers):
            results.append(found)
            line = "  ".join(
                f"{s} {found[s]['ratio']:.2f} ± {found[s]['ratio_se']:.2f} (bias {found[s]['bias']:+.2f}, {found[s]['seconds']} s)"
                for s in arguments.samplers
            )
            size, value = found["episodes"], found["value"]
            print(f"{task}, {size} episodes, v = {value:.4g}, floor {found['floor']:.2f}: {line}", flush=True)
            if arguments.json:
                arguments.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
