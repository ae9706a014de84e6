"""What balancing gains for policies of other kinds: errors relative to Var/n, their floor, and the time of a step.

    python -m tools.adapters_gain --tasks sac-pendulum dqn-cartpole --repeats 100 --json gain.json
    python -m tools.adapters_gain --time

Policies are trained briefly and kept in --policies. Var and the truth come from one long on-policy run. Runs of `auto` are
collected from eight environments side by side, which share one balance, and kept in --runs; the default estimate and the
plain mean look at the same data. The floor is the share of the variance between starts (tools/how_good.py); the
environments here are deterministic after the start. The time is that of a step of `auto` over a step of the library's own
stochastic rollouts, one environment, the median of blocks that take turns.
"""

from __future__ import annotations

import argparse
import functools
import json
import pickle
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

import evenroll
from evenroll.adapters.masks import masks_of
from evenroll.adapters.model import Model, as_model
from evenroll.collection.environments import collect
from evenroll.engine.blas import single_threaded_blas
from evenroll.estimators import get_estimator
from evenroll.evaluation.collector import Collector
from evenroll.evaluation.looking import Look, Seen
from evenroll.evaluation.sources import EnvironmentSource
from evenroll.intervals.independent import Interval
from tools.flow_policy import flow_policy

GAMMA, LANES = 0.99, 8
Step = Callable[[Any, bool], Any]  # (observation, whether an episode begins) → action of the library's own


class NoVelocities(gym.ObservationWrapper):
    """CartPole that shows positions only."""

    def __init__(self, env: gym.Env) -> None:
        super().__init__(env)
        space = env.observation_space
        self.observation_space = gym.spaces.Box(space.low[[0, 2]], space.high[[0, 2]])  # type: ignore[attr-defined]

    def observation(self, observation: np.ndarray) -> np.ndarray:
        return observation[[0, 2]]


class Masked(gym.Wrapper):
    """CartPole with a third action, which does what the first does, and is allowed every other step."""

    def __init__(self, env: gym.Env) -> None:
        super().__init__(env)
        self.action_space, self.t = gym.spaces.Discrete(3), 0

    def reset(self, **options: Any) -> Any:
        self.t = 0
        return super().reset(**options)

    def step(self, action: Any) -> Any:
        self.t += 1
        return super().step(int(action) % 2)

    def action_masks(self) -> np.ndarray:
        return np.array([self.t % 2 == 0, True, self.t % 2 == 1])


class Agent(nn.Module):
    """In the style of CleanRL's ppo.py."""

    def __init__(self) -> None:
        super().__init__()
        self.critic = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
        self.actor = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2))

    def get_value(self, x: torch.Tensor) -> torch.Tensor:
        return self.critic(x)

    def get_action_and_value(self, x: torch.Tensor, action: torch.Tensor | None = None) -> Any:
        probs = Categorical(logits=self.actor(x))
        action = probs.sample() if action is None else action
        return action, probs.log_prob(action), probs.entropy(), self.critic(x)


@dataclass(frozen=True)
class Task:
    """An environment, a policy for it from a directory, and how many on-policy episodes give the truth."""

    env: Callable[[], gym.Env]
    policy: Callable[[Path, gym.Env], tuple[Any, Step]]
    truth: int


def cached(path: Path, kind: Any, make: Callable[[], Any], steps: int) -> Any:
    """A model from disk, or trained and put there."""
    if not path.exists():
        make().learn(steps).save(path)
    return kind.load(path, device="cpu")


def of_sb3(name: str, kind: str, steps: int, policy: str = "MlpPolicy", **options: Any) -> Callable[[Path, gym.Env], Any]:
    def make(where: Path, env: gym.Env) -> tuple[Any, Step]:
        import sb3_contrib
        import stable_baselines3

        algorithm = getattr(stable_baselines3, kind, None) or getattr(sb3_contrib, kind)
        model = cached(
            where / f"{name}.zip", algorithm, lambda: algorithm(policy, env, seed=0, device="cpu", **options), steps
        )
        if kind == "DQN":
            model.exploration_rate = 0.1

        def explore(observation: Any, begins: bool) -> Any:  # the library explores in learn() only, like this
            greedy = model.predict(observation, deterministic=True)[0]
            return greedy if np.random.random() > 0.1 else env.action_space.sample()

        state: Any = None

        def remember(observation: Any, begins: bool) -> Any:
            nonlocal state
            action, state = model.predict(
                observation, state=None if begins else state, episode_start=np.array([begins]), deterministic=False
            )
            return action

        def masked(observation: Any, begins: bool) -> Any:
            return model.predict(observation, action_masks=env.get_wrapper_attr("action_masks")(), deterministic=False)[0]

        ways = {"DQN": explore, "RecurrentPPO": remember, "MaskablePPO": masked}
        return model, ways.get(kind, lambda x, begins: model.predict(x, deterministic=False)[0])

    return make


def of_cleanrl(where: Path, env: gym.Env) -> tuple[Any, Step]:
    """A model of Stable-Baselines3 with the same networks is trained; the agent takes over its parameters."""
    model, _ = of_sb3("cleanrl", "PPO", 3_000, n_steps=512)(where, env)
    agent, theirs = Agent(), model.policy
    with torch.no_grad():
        for ours, chain in ((agent.actor, (*theirs.mlp_extractor.policy_net, theirs.action_net)),
                            (agent.critic, (*theirs.mlp_extractor.value_net, theirs.value_net))):  # fmt: skip
            for layer, other in zip(ours, chain, strict=True):
                if isinstance(layer, nn.Linear):
                    layer.load_state_dict(other.state_dict())

    def act(observation: Any, begins: bool) -> Any:
        with torch.no_grad():
            return int(agent.get_action_and_value(torch.as_tensor(observation)[None])[0])

    return agent, act


def of_flow(where: Path, env: gym.Env) -> tuple[Any, Step]:
    teacher, _ = of_sb3("flow-teacher", "PPO", 3_000, n_steps=512)(where, env)
    flow = flow_policy(env, teacher, where / "flow.pt")
    size = env.action_space.shape[0]  # type: ignore[index]
    policy = evenroll.LatentNoise(flow.act, size, features=flow.features, batched=True)

    def act(observation: Any, begins: bool) -> Any:
        action = flow.act(observation[None], np.random.standard_normal((1, size)))[0]
        return np.clip(action, env.action_space.low, env.action_space.high)  # type: ignore[attr-defined]

    return policy, act


SMALL = {"policy_kwargs": {"net_arch": [64, 64]}}
TASKS = {
    "sac-pendulum": Task(lambda: gym.make("Pendulum-v1"), of_sb3("sac-pendulum", "SAC", 2_500, **SMALL), 8_000),
    "sac-inverted-pendulum": Task(
        lambda: gym.make("InvertedPendulum-v5"), of_sb3("sac-inverted-pendulum", "SAC", 1_500, **SMALL), 20_000
    ),
    "sac-hopper": Task(lambda: gym.make("Hopper-v5"), of_sb3("sac-hopper", "SAC", 4_000, **SMALL), 10_000),
    "recurrent-cartpole": Task(
        lambda: NoVelocities(gym.make("CartPole-v1")),
        of_sb3("recurrent-cartpole", "RecurrentPPO", 4_096, "MlpLstmPolicy", n_steps=512,
               policy_kwargs={"lstm_hidden_size": 32}), 10_000,
    ),
    "maskable-cartpole": Task(
        lambda: Masked(gym.make("CartPole-v1")), of_sb3("maskable-cartpole", "MaskablePPO", 4_096, n_steps=512), 10_000
    ),
    "dqn-cartpole": Task(
        lambda: gym.make("CartPole-v1"),
        of_sb3("dqn-cartpole", "DQN", 6_000, learning_starts=500, train_freq=4, learning_rate=1e-3), 10_000,
    ),
    "cleanrl-cartpole": Task(lambda: gym.make("CartPole-v1"), of_cleanrl, 10_000),
    "flow-inverted-pendulum": Task(lambda: gym.make("InvertedPendulum-v5"), of_flow, 10_000),
}  # fmt: skip


def run(envs: gym.vector.VectorEnv, model: Model, sampler: str, seed: int, episodes: int) -> np.ndarray:
    """The returns of one run."""
    collector = Collector(model, sampler, gamma=GAMMA, seed=seed, lanes=LANES)
    for _ in collect(collector, envs, episodes=episodes):
        pass
    return collector.rollouts().returns


def stored(path: Path, make: Callable[[], Any]) -> Any:
    """What was computed before and lies on disk, or is computed now and put there."""
    if path.exists():
        return pickle.loads(path.read_bytes())
    found = make()
    path.write_bytes(pickle.dumps(found))
    return found


def balanced(envs: gym.vector.VectorEnv, model: Model, seed: int, episodes: int) -> tuple[Any, Any, Any]:
    """(data with its further resets, sampler, divergence) of one run, as `evaluate` collects it."""
    source = EnvironmentSource(envs, model, "auto", gamma=GAMMA, seed=seed, horizon=None, initial=None, deterministic=False)
    list(source.collect(episodes, None, at_once=True))
    return source.rollouts(), source.sampler, source.divergence


def floor(envs: gym.vector.VectorEnv, model: Model, starts: int = 200, repeats: int = 8) -> float:
    """Between-start share of the variance: one-way analysis of variance on rollouts from the same environment seeds."""
    groups = np.empty((starts, repeats))
    for j in range(repeats):
        collector = Collector(model, "os", gamma=GAMMA, seed=10_000_000 + j, lanes=LANES)
        collector.seed = 10_000_000  # the same starts, with other actions
        for _ in collect(collector, envs, episodes=starts, in_rounds=True):
            pass
        groups[:, j] = collector.rollouts().returns
    within = groups.var(axis=1, ddof=1).mean()
    between = max(groups.mean(axis=1).var(ddof=1) - within / repeats, 0.0)
    return float(between / (between + within))


def overhead(env: gym.Env, model: Model, own: Step, blocks: int = 11, steps: int = 300) -> float:
    """Time of a step of `auto` over one of the library's own stochastic rollouts: the median of the blocks' ratios."""
    masks = masks_of(env) if model.masked else None
    collector = Collector(model, "auto", gamma=GAMMA)

    def ours(observation: Any, begins: bool) -> Any:
        return collector.act(observation, masks=None if masks is None else masks({}))

    def seconds(step: Step, watch: bool) -> float:
        observation, _ = env.reset(seed=1)
        begins, started = True, time.perf_counter()
        for _ in range(steps):
            observation, reward, terminated, truncated, _ = env.step(step(observation, begins))
            begins = terminated or truncated
            if watch:
                collector.observe(reward, terminated, truncated)
            if begins:
                observation, _ = env.reset()
        taken = time.perf_counter() - started
        if watch and not begins:
            collector.abandon()
        return taken

    ratios = [seconds(ours, True) / seconds(own, False) for _ in range(blocks + 1)]
    return median(ratios[1:])


def study(name: str, sizes: list[int], repeats: int, where: Path, runs: Path, truth: float) -> Iterator[dict[str, Any]]:
    """A record per number of episodes and estimate. Every number of episodes has runs of its own."""
    task = TASKS[name]
    env, envs = task.env(), gym.vector.SyncVectorEnv([task.env] * LANES)
    policy, _ = task.policy(where, env)
    model = as_model(policy, env.observation_space, env.action_space)
    runs.mkdir(exist_ok=True, parents=True)
    long = stored(runs / f"{name}-truth-{truth}", lambda: run(envs, model, "os", 999_983, int(task.truth * truth)))
    lowest = stored(runs / f"{name}-floor", lambda: floor(envs, model))
    value, variance = float(long.mean()), float(long.var(ddof=1))
    of_truth = variance / len(long)
    known = {"task": name, "policy": model.described, "repeats": repeats, "truth": len(long), "value": value,
             "sd": variance**0.5, "floor": lowest}  # fmt: skip
    looks = {estimate: Look(get_estimator(estimate)) for estimate in ("score", "mc")}
    for n in sizes:
        rows: dict[str, list[tuple[float, float, bool, float]]] = {estimate: [] for estimate in looks}
        for seed in range(repeats):
            data, sampler, divergence = stored(
                runs / f"{name}-{n}-{seed}", functools.partial(balanced, envs, model, seed, n)
            )
            seen = Seen(data, model.engine, sampler, divergence, model.described, name, seed)
            for estimate, look in looks.items():
                found, interval = seen.look(look, 0.95)
                if isinstance(interval, Interval):
                    half, covers = interval.half_width, interval.low <= value <= interval.high
                else:
                    half, covers = np.nan, False
                rows[estimate].append((found - value, half, covers, len(data.resets)))
        for estimate, found in rows.items():
            errors, halves, covers, resets = np.array(found).T
            squares = np.square(errors) - of_truth  # the truth has an error of its own
            yield known | {
                "episodes": n, "estimate": estimate, "ratio": float(squares.mean() / (variance / n)),
                "ratio_se": float(squares.std(ddof=1) / repeats**0.5 / (variance / n)),
                "bias": float(errors.mean() / np.sqrt(np.square(errors).mean())),
                "bias_se": float(np.sqrt(1 / repeats + of_truth / np.square(errors).mean())),
                "coverage": float(covers.mean()), "width": float(np.nanmean(halves) / (1.96 * errors.std(ddof=1))),
                "resets": float(resets.mean()),
            }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--episodes", nargs="+", type=int, default=[64])
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--truth", type=float, default=1.0, help="factor on the episodes of the truth")
    parser.add_argument("--policies", type=Path, default=Path("policies"), help="where trained policies are kept")
    parser.add_argument(
        "--runs", type=Path, default=Path("runs"), help="where what was collected is kept, to be looked at again"
    )
    parser.add_argument("--time", action="store_true", help="measure the time of a step only")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    arguments.policies.mkdir(exist_ok=True, parents=True)
    results: list[dict[str, Any]] = []
    for task in arguments.tasks:
        if arguments.time:
            env = TASKS[task].env()
            policy, own = TASKS[task].policy(arguments.policies, env)
            ratio = overhead(env, as_model(policy, env.observation_space, env.action_space), own)
            results.append({"task": task, "overhead": ratio})
            print(f"{task}: {ratio:.2f} × the time", flush=True)
            continue
        with single_threaded_blas():
            for found in study(
                task, arguments.episodes, arguments.repeats, arguments.policies, arguments.runs, arguments.truth
            ):
                results.append(found)
                print(
                    f"{task}, {found['episodes']} episodes, {found['estimate']}: {found['ratio']:.3f} ± "
                    f"{found['ratio_se']:.3f} of Var/n, floor {found['floor']:.2f}, bias {found['bias']:+.2f} ± "
                    f"{found['bias_se']:.2f}, coverage {found['coverage']:.2f}, width {found['width']:.2f}, "
                    f"{found['resets']:.0f} resets, v = {found['value']:.4g} (sd {found['sd']:.3g})",
                    flush=True,
                )
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
