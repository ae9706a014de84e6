"""Does PPO learn faster from balanced data? Learning curves over many seeds, with identical default hyper-parameters.

    python -m tools.learning_curves --tasks CartPole-v1 Hopper-v5 --seeds 20 --workers 2
    python -m tools.learning_curves --report --plot --json docs/data/learning_curves.json

Five methods are known, the first four of them `evenroll.sb3.BalancedPPO` with Stable-Baselines3's defaults. Their training
is computed by `tools/quick_ppo.py`, which makes the same steps in an eighth of the time:

    ppo              sampler "os": Stable-Baselines3's PPO
    ppo-buffer       "os" with carry_over=1: PPO that learns from the last rollout, too
    balanced         "auto"
    balanced-buffer  "auto" with carry_over=1: the two rollouts together are on-policy
    props            PROPS in place of "auto", with carry_over=1 (not among the methods by default; tools/quick_ppo.py)

Each run is a file of its own in --out, written whole or not at all. What is there is not run again, so that the command can
be stopped and given again, and several of them can work in one folder. A curve is the mean return of the last episodes that
ended in training (at most 100), at every rollout. Its area is the mean of the curve over the steps. The threshold of a task
is where plain PPO ends on average over its seeds. Runs that do not reach it count as reaching it at the end of the budget.
Each method is compared with plain PPO, and one with a buffer also with PPO that has the same buffer.

The intervals are bootstrap intervals over seeds; over several tasks the seeds are drawn within each task (stratified), and
the ratio of the areas is a geometric mean over the tasks. Areas of returns below 0 have no ratio: Acrobot's returns are
counted from −500, the worst one.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

METHODS = {
    "ppo": {"sampler": "os"}, "ppo-buffer": {"sampler": "os", "carry_over": 1}, "balanced": {"sampler": "auto"},
    "balanced-buffer": {"sampler": "auto", "carry_over": 1}, "props": {"sampler": "os", "carry_over": 1},
}  # fmt: skip


@dataclass(frozen=True)
class Task:
    steps: int  # the budget
    worst: float = 0.0  # what returns are counted from


TASKS = {
    "CartPole-v1": Task(20_480),
    "Acrobot-v1": Task(40_960, -500.0),
    "InvertedPendulum-v5": Task(30_720),
    "Hopper-v5": Task(81_920),
    "Walker2d-v5": Task(81_920),
}
NAMES = {"ppo": "PPO", "ppo-buffer": "PPO, two rollouts", "balanced": "BalancedPPO",
         "balanced-buffer": "BalancedPPO, carry_over=1", "props": "PROPS, two rollouts"}  # fmt: skip
EPISODES = 100  # whose returns are averaged
DRAWS = 2_000  # of the bootstrap


def run(task: str, method: str, seed: int, steps: int, path: Path) -> str:
    """One run, and its file."""
    import torch
    from stable_baselines3.common.callbacks import BaseCallback

    from evenroll.engine.blas import single_threaded_blas
    from tools.quick_ppo import QuickBalancedPPO, QuickPROPS

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.distributions.Distribution.set_default_validate_args(False)  # a tenth of the time, and nothing in the numbers
    curve: list[tuple[int, float]] = []

    class AtTheEnd(BaseCallback):
        def _on_step(self) -> bool:
            return True

        def _on_rollout_end(self) -> None:
            last = [episode["r"] for episode in self.model.ep_info_buffer][-EPISODES:]
            curve.append((self.num_timesteps, float(np.mean(last)) if last else TASKS[task].worst))

    begun = time.process_time()
    options: dict[str, Any] = METHODS[method]
    with single_threaded_blas():
        kind = QuickPROPS if method == "props" else QuickBalancedPPO
        kind("MlpPolicy", task, seed=seed, device="cpu", **options).learn(steps, callback=AtTheEnd())
    record = {"task": task, "method": method, "seed": seed, "seconds": time.process_time() - begun, "curve": curve}
    half = path.with_suffix(f".{os.getpid()}.part")
    half.write_text(json.dumps(record))
    half.replace(path)
    return path.stem


def missing(args: argparse.Namespace) -> list[tuple[str, str, int, int, Path]]:
    """The runs that have no file yet, seed by seed, so that all methods have the same seeds whenever it is stopped."""
    found = []
    for seed in range(args.first_seed, args.first_seed + args.seeds):
        for task in args.tasks:
            steps = args.steps or TASKS[task].steps
            for method in args.methods:
                path = args.out / f"{task}-{steps}-{method}-{seed}.json"
                if not path.exists():
                    found.append((task, method, seed, steps, path))
    return found


def work(args: argparse.Namespace) -> None:
    """Run what is missing, in as many processes as there are workers."""
    args.out.mkdir(parents=True, exist_ok=True)
    waiting = missing(args)
    print(f"{len(waiting)} runs to do", flush=True)
    failed = []
    with ProcessPoolExecutor(args.workers, multiprocessing.get_context("spawn")) as pool:
        running = {pool.submit(run, *job): job[-1].stem for job in waiting}
        for done, future in enumerate(as_completed(running), 1):
            error = future.exception()
            print(f"{running[future]}: {error or 'done'}, {len(waiting) - done} to go", flush=True)
            failed += [running[future]] if error else []
    if failed:
        sys.exit(f"{len(failed)} runs failed: {', '.join(failed)}")


# ---- what came out ---------------------------------------------------------------------------------------------------


def curves(args: argparse.Namespace) -> dict[str, dict[str, np.ndarray]]:
    """{task: {method: returns [seeds, rollouts]}}, of the seeds that all methods have."""
    found: dict[str, dict[str, np.ndarray]] = {}
    for task in args.tasks:
        steps = args.steps or TASKS[task].steps
        seeds = range(args.first_seed, args.first_seed + args.seeds)
        paths = {seed: [args.out / f"{task}-{steps}-{method}-{seed}.json" for method in args.methods] for seed in seeds}
        whole = [seed for seed in seeds if all(path.exists() for path in paths[seed])]
        if len(whole) < 2:
            continue
        found[task] = {
            method: np.array([[y for _, y in json.loads(paths[seed][i].read_text())["curve"]] for seed in whole])
            for i, method in enumerate(args.methods)
        }
    return found


def areas(task: str, returns: np.ndarray) -> np.ndarray:
    """[seeds] the mean of each curve, counted from the worst return."""
    return np.asarray((returns - TASKS[task].worst).mean(axis=1))


def arrivals(returns: np.ndarray, threshold: float, steps: int) -> np.ndarray:
    """[seeds] the steps until a curve reaches the threshold; the whole budget if it never does."""
    reached = returns >= threshold
    first = np.where(reached.any(axis=1), reached.argmax(axis=1) + 1, returns.shape[1])
    return np.asarray(first * steps / returns.shape[1])


def ratio(parts: list[tuple[np.ndarray, np.ndarray]], rng: np.random.Generator) -> tuple[float, float, float]:
    """(ratio, low, high) of means, ours over theirs: the geometric mean over tasks, with a 95 % bootstrap interval.

    Seeds are drawn within each task, ours and theirs apart, because runs of one seed do not share their luck for long.
    """
    value = float(np.exp(np.mean([np.log(a.mean() / b.mean()) for a, b in parts])))
    draws = []
    for _ in range(DRAWS):
        logs = [np.log(rng.choice(a, len(a)).mean() / rng.choice(b, len(b)).mean()) for a, b in parts]
        draws.append(np.exp(np.mean(logs)))
    low, high = np.quantile(draws, [0.025, 0.975])
    return value, float(low), float(high)


def report(args: argparse.Namespace) -> list[dict[str, Any]]:
    data, rows, rng = curves(args), [], np.random.default_rng(0)
    bases = {"ppo": [], "ppo-buffer": ["ppo"], "balanced": ["ppo"]}
    pairs = [(method, base) for method in args.methods for base in bases.get(method, ["ppo", "ppo-buffer"])]
    for method, base in [(method, base) for method, base in pairs if base in args.methods]:
        of_area, of_time = [], []
        for task, found in data.items():
            steps, level = args.steps or TASKS[task].steps, float(found[args.methods[0]][:, -1].mean())
            area = areas(task, found[method]), areas(task, found[base])
            there = arrivals(found[method], level, steps), arrivals(found[base], level, steps)
            of_area.append(area)
            of_time.append(there)
            rows.append({
                "task": task, "method": method, "base": base, "seeds": len(area[0]), "area": float(area[0].mean()),
                "area_ratio": ratio([area], rng), "threshold": level, "steps_to_threshold": float(there[0].mean()),
                "steps_ratio": ratio([there], rng), "reached": float((found[method] >= level).any(1).mean()),
                "last": float(found[method][:, -1].mean()),
            })  # fmt: skip
        if len(data) > 1:
            rows.append({"task": "all", "method": method, "base": base, "area_ratio": ratio(of_area, rng),
                         "steps_ratio": ratio(of_time, rng)})  # fmt: skip
    for row in rows:
        area, there = row["area_ratio"], row["steps_ratio"]
        print(
            f"{row['task']} {row['method']}: area {area[0]:.3f} [{area[1]:.3f}, {area[2]:.3f}] of {row['base']}, "
            f"steps to the threshold {there[0]:.3f} [{there[1]:.3f}, {there[2]:.3f}], {row.get('seeds', '')} seeds"
        )
    if args.json:
        every = {task: {m: np.round(x, 2).tolist() for m, x in found.items()} for task, found in data.items()}
        args.json.write_text(json.dumps({"rows": rows, "curves": every}) + "\n")
    if args.plot and data:
        plot(data, args)
    return rows


def plot(data: dict[str, dict[str, np.ndarray]], args: argparse.Namespace) -> None:
    """docs/images/learning-light.svg and -dark.svg: mean curves with bands of one standard error, a panel for each task."""
    import matplotlib.pyplot as plt

    from tools.docs_figures import BALANCED, INK, POLICY, save, style
    from tools.docs_figures import METHODS as COLOURS

    looks = {"ppo": (POLICY, "--"), "ppo-buffer": (POLICY, "-"), "balanced": (BALANCED, "--"),
             "balanced-buffer": (BALANCED, "-"), "props": (COLOURS["bpg/ois"], "-")}  # fmt: skip
    for scheme in INK:
        with plt.rc_context(style(scheme)):
            figure, panels = plt.subplots(2, -(-len(data) // 2), figsize=(7.6, 6.0), squeeze=False, layout="constrained")
            for panel, (task, found) in zip(panels.flat, data.items(), strict=False):
                for method, returns in found.items():
                    colours, line = looks[method]
                    steps = np.linspace(0, args.steps or TASKS[task].steps, returns.shape[1] + 1)[1:] / 1000
                    mean, error = returns.mean(axis=0), returns.std(axis=0, ddof=1) / np.sqrt(len(returns))
                    panel.plot(steps, mean, line, color=colours[scheme], label=NAMES[method])
                    panel.fill_between(steps, mean - error, mean + error, alpha=0.2, color=colours[scheme], linewidth=0)
                panel.set(title=task, xlabel="thousand steps")
            for row in panels:
                row[0].set_ylabel("return")
            figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside upper center", ncols=2, frameon=False)
            save(figure, "learning", scheme)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=[t for t in TASKS if t != "Walker2d-v5"], choices=list(TASKS))
    parser.add_argument("--methods", nargs="+", default=[m for m in METHODS if m != "props"], choices=list(METHODS))
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--steps", type=int, help="instead of each task's own budget")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("build/learning"))
    parser.add_argument("--report", action="store_true", help="run nothing, report what is there")
    parser.add_argument("--json", type=Path, help="what is reported, and all curves")
    parser.add_argument("--plot", action="store_true", help="draw docs/images/learning-*.svg")
    args = parser.parse_args()
    if not args.report:
        work(args)
    report(args)


if __name__ == "__main__":
    main()
