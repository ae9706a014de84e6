"""How much faster several workers are than one.

    python tools/workers_speed.py                    both: a simulator that sleeps (8 threads), CartPole-v1 (2 processes)
    python tools/workers_speed.py --only sleeping --episodes 256 --length 20

The sleeping simulator takes 2 ms a step, and its episodes have a fixed length. CartPole-v1 has a hard limit of 500 steps and
a policy that nearly reaches it. Each is run with one worker and with several, one after the other in this process, and must
give the same bytes. What was not measured is how long processes take to start: they start before the clock does.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import time
import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import psutil

import evenroll
from evenroll.evaluation.workers import WorkersSource

STEP = 0.002  # seconds


class Sleeping(gym.Env):  # type: ignore[type-arg]
    observation_space = gym.spaces.Box(-1.0, 1.0, (4,), np.float64)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, length: int) -> None:
        self.length = length

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.t = 0
        return self.np_random.uniform(-1.0, 1.0, 4), {}

    def step(self, action: Any) -> Any:
        time.sleep(STEP)
        self.t += 1
        return self.np_random.uniform(-1.0, 1.0, 4), float(action), self.t >= self.length, False, {}


def sleeping(length: int = 50) -> gym.Env:  # type: ignore[type-arg]
    return Sleeping(length)


def policy() -> evenroll.MLP:
    """It keeps CartPole up for long, and leaves something to chance."""
    return evenroll.MLP([(np.eye(4), np.zeros(4))], [[0.0] * 4, [0.5, 1.0, 8.0, 4.0]], [0.0, 0.0], activation="tanh")


def seconds(env: str, executor: str, workers: int, episodes: int) -> tuple[float, np.ndarray]:
    """How long so many episodes take, and their returns. The first two start the workers."""
    source = WorkersSource(env, policy(), workers=workers, executor=executor, resets=0)
    try:
        list(source.collect(2, None, at_once=True))
        started, before = time.perf_counter(), processor_seconds()
        list(source.collect(episodes, None, at_once=True))
        took = time.perf_counter() - started
        spent = {who: round(used - before.get(who, 0.0), 1) for who, used in processor_seconds().items()}
        driver, own = spent.pop(os.getpid()), list(spent.values())
        print(f"  {workers} {executor}: {took:.1f} s; the driver used {driver} s of processor, processes {own}", flush=True)
        return took, source.rollouts().returns
    finally:
        source.close()


def processor_seconds() -> dict[int, float]:
    """What this process and those that it has started have used. On a busy machine this tells more than the clock does."""
    found = {}
    for process in (psutil.Process(), *psutil.Process().children()):
        with contextlib.suppress(psutil.NoSuchProcess):
            found[process.pid] = sum(process.cpu_times()[:2])
    return found


def compare(env: str, executor: str, workers: int, episodes: int, wanted: float) -> bool:
    one, alone = seconds(env, executor, 1, episodes)
    many, together = seconds(env, executor, workers, episodes)
    same = np.array_equal(alone, together)
    print(
        f"{env}: {episodes} episodes, 1 worker {one:.1f} s, {workers} {executor} {many:.1f} s: {one / many:.2f} times as "
        f"fast (wanted: {wanted}); {'the same' if same else 'OTHER'} returns", flush=True,
    )  # fmt: skip
    return same and one / many >= wanted


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=("sleeping", "cartpole"))
    parser.add_argument("--episodes", type=int, default=2048)
    parser.add_argument("--length", type=int, default=25, help="steps of an episode of the sleeping simulator")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    good = True
    if given.only != "cartpole":
        good &= compare(f"workers_speed:sleeping:length={given.length}", "threads", 8, given.episodes, 6.5)
    if given.only != "sleeping":
        good &= compare("CartPole-v1", "processes", 2, given.episodes, 1.7)
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
