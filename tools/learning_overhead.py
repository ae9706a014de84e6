"""What balancing costs while PPO learns: the time of a step of `BalancedPPO`, relative to Stable-Baselines3's PPO.

    python tools/learning_overhead.py --tasks CartPole-v1 Hopper-v5 --repeats 5

Both run side by side in one process, in turn, with default hyper-parameters but rollouts of 2,048 steps of all environments
together. Times are those of the processor, so that other processes count little. *Collecting* is the time of
`collect_rollouts` alone, *whole* that of a whole iteration with its training.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

from evenroll.sb3 import BalancedPPO

STEPS = 2048


def timed(kind: Any) -> Any:
    class Timed(kind):  # type: ignore[misc]
        collecting = 0.0

        def collect_rollouts(self, *args: Any, **kwargs: Any) -> bool:
            begun = time.process_time()
            result = super().collect_rollouts(*args, **kwargs)
            self.collecting += time.process_time() - begun
            return bool(result)

    return Timed


def measure(task: str, envs: int, repeats: int) -> dict[str, np.ndarray]:
    """{method: [repeats, 2]}: seconds of collecting and of everything."""
    methods = {"ppo": (PPO, {}), "auto": (BalancedPPO, {}), "auto, carry_over=1": (BalancedPPO, {"carry_over": 1})}
    models = {
        name: timed(kind)("MlpPolicy", make_vec_env(task, envs), n_steps=STEPS // envs, seed=0, device="cpu", **options)
        for name, (kind, options) in methods.items()
    }
    for model in models.values():
        model.learn(STEPS)  # compiles, and fills the caches
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in models}
    for _ in range(repeats):
        for name, model in models.items():
            begun, before = time.process_time(), model.collecting
            model.learn(STEPS, reset_num_timesteps=False)
            found[name].append((model.collecting - before, time.process_time() - begun))
    return {name: np.array(rows) for name, rows in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=["CartPole-v1", "Hopper-v5"])
    parser.add_argument("--envs", nargs="+", type=int, default=[1, 8])
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for task in args.tasks:
        for envs in args.envs:
            rows = measure(task, envs, args.repeats)
            plain = np.median(rows["ppo"], axis=0)
            for name, seconds in rows.items():
                collecting, whole = np.median(seconds, axis=0) / plain
                each = np.median(seconds, axis=0) / STEPS * 1e6
                print(
                    f"{task}, {envs} environments, {name}: collecting {each[0]:.0f} µs a step ({collecting:.2f} ×), whole "
                    f"{each[1]:.0f} µs ({whole:.2f} ×)",
                    flush=True,
                )


if __name__ == "__main__":
    main()
