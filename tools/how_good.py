"""How good and how true evaluations of real tasks are: errors relative to Var/n, coverage and width of the intervals.

The policies are partly trained PPO models of Stable-Baselines3.

    python tools/how_good.py --tasks CartPole-v1 --episodes 64 --repeats 200 --json how_good.json
    python tools/how_good.py --tasks Pendulum-v1 Reacher-v5 --deterministic
    python tools/how_good.py --episodes 32 64 256 --keep runs     # keeps what was collected, and looks at it again next time
    python tools/how_good.py --episodes 32 64 256 --workers 2     # two tasks at a time

Var and the truth come from one long on-policy run; the truth is its `score` estimate, whose error is smaller than the
mean's and is taken off the squared errors. Beside the default estimate stands the plain mean of the same balanced
episodes. *Width* is the mean half-width over 1.96 standard deviations of the estimate over the repeats. *Says* is how many
on-policy episodes an episode is worth according to the result (the median), *is* how many it is worth according to its
error. *T* is the coverage of Student's interval of as many on-policy episodes, resampled from the long run: what skewed
returns cost anybody. The floor is the share of the variance that stays if all luck of the actions is removed: the variance
between starts, of rollouts that are repeated from the same starts, divided by the variance of all rollouts.
"""

from __future__ import annotations

import argparse
import functools
import json
import multiprocessing
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3 import PPO

from evenroll.adapters.model import Model, as_model
from evenroll.adapters.start_seeds import start_seed
from evenroll.collection.resets import STEPS_PER_RESET
from evenroll.collection.rollouts import Rollouts
from evenroll.engine.blas import single_threaded_blas
from evenroll.estimators import get_estimator
from evenroll.evaluation.collector import Collector
from evenroll.evaluation.looking import Look, Seen, on_policy_episodes
from evenroll.evaluation.sources import EnvironmentSource
from evenroll.intervals.independent import Interval, student_quantile
from evenroll.policies import External, Policy

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


def trained(task: str, steps: int, where: Path, seed: int = 0) -> PPO:
    """A policy from disk, or trained and put there."""
    path = where / (f"{task}.zip" if seed == 0 else f"{task}-{seed}.zip")
    if not path.exists():
        model = PPO("MlpPolicy", task, seed=seed, n_steps=1024, device="cpu")
        model.learn(steps)
        model.save(path)
    return PPO.load(path, device="cpu")


def truth(env: gym.Env, model: Model, gamma: float, episodes: int, deterministic: bool) -> tuple[float, float, np.ndarray]:
    """(value, the square of its standard error, the returns) from many on-policy episodes."""
    source = EnvironmentSource(
        env, model, "os", gamma=gamma, seed=999_983, horizon=None, initial=None, deterministic=deterministic
    )
    list(source.collect(episodes, None, at_once=True))
    data = source.rollouts()
    seen = Seen(data, source.policy, source.sampler, source.divergence, model.described, "", 0)
    value, interval = seen.look(Look(get_estimator("score")), 0.95)
    assert isinstance(interval, Interval)
    return value, (interval.half_width / 1.96) ** 2, data.returns


def coverage_of_t(returns: np.ndarray, n: int, draws: int = 8000) -> float:
    """How often Student's 95 % interval of n of these returns, drawn with replacement, holds their mean."""
    some = np.random.default_rng(0).choice(returns, (draws, n))
    half = student_quantile(0.95, n - 1) * some.std(axis=1, ddof=1) / n**0.5
    return float((np.abs(some.mean(axis=1) - returns.mean()) <= half).mean())


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


class Keep:
    """What was collected, in a directory; without one nothing is kept. Actions and observations are in single precision."""

    COLUMNS = ("returns", "ends", "terminated", "observations", "actions", "rewards", "resets")

    def __init__(self, where: Path | None) -> None:
        self.where = where
        if where is not None:
            where.mkdir(parents=True, exist_ok=True)

    def runs(self, name: str, make: Callable[[], Rollouts], policy: Policy | None) -> Rollouts:
        """The data of this name, or what `make` collects. A network that runs elsewhere is not kept."""
        if self.where is None or isinstance(policy, External):
            return make()
        path = self.where / f"{name}.npz"
        if not path.exists():
            data = make()
            columns = {x: getattr(data, x) for x in self.COLUMNS if getattr(data, x) is not None}
            for x in ("observations", "rewards", "resets"):
                columns[x] = columns[x].astype(np.float32) if x in columns else np.empty(0, np.float32)
            own, more = data.critic or (np.empty(0), np.empty(0))
            self._write(path, gamma=data.gamma, steps=data.steps, own=own, more=more, **columns)
        with np.load(path) as kept:
            columns = {x: kept[x] for x in self.COLUMNS if len(kept[x])}
            for x in ("observations", "rewards", "resets"):
                columns[x] = columns[x].astype(np.float64) if x in columns else None
            critic = (kept["own"], kept["more"]) if len(kept["own"]) else None
            return Rollouts(float(kept["gamma"]), int(kept["steps"]), critic=critic, **columns)

    def truth(self, name: str, make: Callable[[], tuple[float, float, np.ndarray]]) -> tuple[float, float, np.ndarray]:
        if self.where is None:
            return make()
        path = self.where / f"{name}.npz"
        if not path.exists():
            value, square, returns = make()
            self._write(path, value=value, square=square, returns=returns)
        with np.load(path) as kept:
            return float(kept["value"]), float(kept["square"]), kept["returns"]

    def _write(self, path: Path, **columns: object) -> None:
        partial = path.with_suffix(".partial.npz")
        np.savez(partial, **columns)
        partial.rename(path)


def study(
    task: str, model: PPO, gamma: float, truths: int, sizes: list[int], repeats: int, sampler: str, deterministic: bool,
    keep: Keep, kept_as: str,
) -> Iterator[dict]:  # fmt: skip
    """A record per size and estimate. Runs go to the largest size; the smaller ones are their beginnings."""
    env = gym.make(task)
    ours = as_model(model, env.observation_space, env.action_space, deterministic=deterministic)
    value, of_truth, returns = keep.truth(
        f"{kept_as}-truth-{truths}", lambda: truth(env, ours, gamma, truths, deterministic)
    )
    variance = float(returns.var(ddof=1))
    known = {"task": task, "policy": ours.described, "value": value, "value_se": of_truth**0.5, "variance": variance,
             "repeats": repeats, "sampler": sampler, "floor": None if deterministic else floor(env, ours, gamma),
             }  # fmt: skip
    looks = {name: Look(get_estimator(name)) for name in ("score", "mc")}
    rows: dict[tuple[int, str], list[tuple[float, float, float, float]]] = {(n, name): [] for n in sizes for name in looks}
    for repeat in range(repeats):
        source = EnvironmentSource(
            env, ours, sampler, gamma=gamma, seed=repeat, horizon=None, initial=None, deterministic=deterministic
        )

        def collected(source: EnvironmentSource = source) -> Rollouts:
            list(source.collect(max(sizes), None, at_once=True))
            return source.rollouts()

        data = keep.runs(f"{kept_as}-{sampler}-{max(sizes)}-{repeat}", collected, source.policy)
        for n in sizes:
            part = data.prefix(int(data.ends[n - 1]))
            resets = None if data.resets is None else data.resets[: max(part.steps // STEPS_PER_RESET, 2)]
            critic = None if part.critic is None or resets is None else (part.critic[0], part.critic[1][: len(resets)])
            seen = Seen(replace(part, resets=resets, critic=critic), source.policy, source.sampler, source.divergence,
                        ours.described, task, repeat)  # fmt: skip
            for name, look in looks.items():
                found, interval = seen.look(look, 0.95)
                half = interval.half_width if isinstance(interval, Interval) else np.nan
                worth = on_policy_episodes(part, interval) if isinstance(interval, Interval) else None
                covers = isinstance(interval, Interval) and interval.low <= value <= interval.high
                rows[n, name].append((found - value, half, covers, np.nan if worth is None else worth / n))
    for (n, name), found in rows.items():
        errors, halves, covers, worth = np.array(found).T
        squares = np.square(errors) - of_truth  # the truth has an error of its own
        ratio = float(squares.mean() / (variance / n))
        yield known | {
            "episodes": n, "estimate": name, "ratio": ratio,
            "ratio_se": float(squares.std(ddof=1) / repeats**0.5 / (variance / n)),
            "bias": float(errors.mean() / np.sqrt(np.square(errors).mean())),
            "bias_se": float(np.sqrt(1 / repeats + of_truth / np.square(errors).mean())),
            "coverage": float(covers.mean()), "width": float(np.nanmean(halves) / (1.96 * errors.std(ddof=1))),
            "says": float(np.nanmedian(worth)), "is": 1.0 / ratio if ratio > 0.0 else None,
            "coverage_of_t": coverage_of_t(returns, n),
        }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=[*TASKS, *OTHERS], choices=[*TASKS, *OTHERS])
    parser.add_argument("--episodes", nargs="+", type=int, default=[64, 256])
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--truth", type=float, default=1.0, help="factor on the episodes of the truth")
    parser.add_argument("--sampler", default="auto")
    parser.add_argument("--deterministic", action="store_true", help="the policies' likeliest actions")
    parser.add_argument("--seed", type=int, default=0, help="of the training: another seed is another policy")
    parser.add_argument("--policies", type=Path, default=Path("policies"), help="where trained policies are kept")
    parser.add_argument("--keep", type=Path, help="where runs and truths are kept, and looked for before any is collected")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--workers", type=int, default=1, help="how many tasks are measured at a time")
    arguments = parser.parse_args()
    arguments.policies.mkdir(exist_ok=True)
    results = []
    with ProcessPoolExecutor(arguments.workers, multiprocessing.get_context("spawn")) as pool:
        for found in pool.map(functools.partial(measured, arguments), arguments.tasks):
            results += found
            if arguments.json:
                arguments.json.write_text(json.dumps(results, indent=1) + "\n")


def measured(arguments: argparse.Namespace, task: str) -> list[dict]:
    """The records of a task, which are printed as soon as they are there."""
    warnings.filterwarnings("ignore", category=UserWarning)
    torch.set_num_threads(1)
    steps, gamma, truths = {**TASKS, **OTHERS}[task]
    model = trained(task, steps, arguments.policies, arguments.seed)
    results = []
    with single_threaded_blas():
        for found in study(
            task, model, gamma, int(truths * arguments.truth), arguments.episodes, arguments.repeats,
            arguments.sampler, arguments.deterministic, Keep(arguments.keep),
            f"{task}-{arguments.seed}{'-deterministic' if arguments.deterministic else ''}",
        ):  # fmt: skip
            results.append(found)
            print(
                f"{task}, {found['episodes']} episodes, {found['estimate']}: "
                f"{found['ratio']:.3f} ± {found['ratio_se']:.3f}, "
                f"bias {found['bias']:+.2f} ± {found['bias_se']:.2f}, coverage {found['coverage']:.3f}, width "
                f"{found['width']:.2f}, says {found['says']:.2g}×, t {found['coverage_of_t']:.3f}",
                flush=True,
            )
    return results


if __name__ == "__main__":
    main()
