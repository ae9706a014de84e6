"""What evaluation on a large cluster gains: time by the clock and error, balanced against plain on-policy sampling.

    python -m tools.cluster_gain                         InvertedPendulum-v5, 64 workers that take 20 ms a step
    python -m tools.cluster_gain --episodes 256 --on-policy 600 --repeats 60

The workers are threads of this machine, and their simulator sleeps, as one on another machine would seem to from here. What
they collect does not depend on how many they are. So the errors are measured apart, without sleeping, over many seeds: that
of the default estimate of balanced episodes, and that of the plain mean of on-policy ones, relative to the variance of a
return divided by the number of episodes. The time is that of one run of each, from the first episode to the last.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from evenroll.engine.blas import single_threaded_blas
from evenroll.estimators.score_regression import score_regression
from evenroll.evaluation.workers import WorkersSource

TASK, TRAINING = "InvertedPendulum-v5", 8_000  # and for how many steps its PPO policy was trained


class Slow(gym.Wrapper):  # type: ignore[type-arg]
    def __init__(self, env: Any, seconds: float) -> None:
        super().__init__(env)
        self.seconds = seconds

    def step(self, action: Any) -> Any:
        if self.seconds:
            time.sleep(self.seconds)
        return super().step(action)


def slow(milliseconds: int = 20) -> Any:
    return Slow(gym.make(TASK), milliseconds / 1000.0)


def collected(
    model: Path, sampler: str, episodes: int, seed: int, workers: int, milliseconds: int
) -> tuple[Any, Any, float]:  # fmt: skip
    """(rollouts, the policy, seconds of collecting)."""
    name = f"tools.cluster_gain:slow:milliseconds={milliseconds}"
    source = WorkersSource(name, model, sampler, gamma=0.99, seed=seed, workers=workers, executor="threads", resets=0)
    try:
        began = time.perf_counter()
        list(source.collect(episodes, None, at_once=True))
        return source.rollouts(), source.policy, time.perf_counter() - began
    finally:
        source.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, nargs="+", default=[256, 1024], help="balanced ones")
    parser.add_argument("--on-policy", type=int, nargs="+", default=[], help="in addition, how many on-policy ones")
    parser.add_argument("--workers", type=int, default=64)
    parser.add_argument("--milliseconds", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=60)
    parser.add_argument("--truth", type=int, default=20_000)
    parser.add_argument("--models", type=Path, default=Path("build/how_good"))
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    from tools.how_good import trained

    given.models.mkdir(parents=True, exist_ok=True)
    trained(TASK, TRAINING, given.models)
    model = given.models / f"{TASK}.zip"
    with single_threaded_blas():
        long, _, _ = collected(model, "os", given.truth, 999_983, 1, 0)
        truth, variance = float(long.returns.mean()), float(long.returns.var(ddof=1))
        print(f"on-policy: {long.steps / long.episodes:.0f} steps an episode, value {truth:.3f}", flush=True)
        for n in given.episodes:
            squares = []
            for seed in range(given.repeats):
                data, policy, _ = collected(model, "auto", n, seed, 1, 0)
                squares.append((score_regression(data, policy).value - truth) ** 2)
            share = (float(np.mean(squares)) - variance / given.truth) / (variance / n)
            error = float(np.std(squares, ddof=1)) / len(squares) ** 0.5 / (variance / n)
            _, _, took = collected(model, "auto", n, 0, given.workers, given.milliseconds)
            same = round(n / share)
            print(
                f"{n} balanced episodes: {took:.1f} s with {given.workers} workers, squared error {share:.2f} ± {error:.2f} "
                f"of that of {n} on-policy ones, as small as that of {same}", flush=True,
            )  # fmt: skip
            for count in (n, same):
                data, _, took = collected(model, "os", count, 1, given.workers, given.milliseconds)
                print(f"  {count} on-policy episodes: {took:.1f} s, {data.steps:,} steps", flush=True)
        for count in given.on_policy:
            data, _, took = collected(model, "os", count, 1, given.workers, given.milliseconds)
            print(f"{count} on-policy episodes: {took:.1f} s, {data.steps:,} steps", flush=True)


if __name__ == "__main__":
    main()
