"""What it costs that the blocks of a round do not see each other: errors with rounds, relative to one balance without delay.

    python -m tools.staleness --tasks cartpole --episodes 64 --trials 400
    python -m tools.staleness --json staleness.json        everything: four tasks, 64 and 512 episodes; hours

Every trial is run with rounds of one block of one episode, which is one balance without delay, and then with each schedule.
Starts and random streams are numbered by episode, so that all of them meet the same starts, and the ratio of their errors is
known better than the errors are. Its standard error is a jackknife over trials. `default` is the schedule of
evaluation/episode_blocks.py; `1/32`, `1/8` and `1/4` are the same with other rounds. cartpole and cartpole-continuous run in
compiled code; the true value is known. On Gymnasium's tasks the policies are partly trained PPO models (tools/how_good.py),
and the truth is the mean of all trials of all schedules' score estimates, whose own error is told.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

from evenroll.adapters.model import as_model
from evenroll.collection.merging import added, merge, snapshot, take_over
from evenroll.collection.rollouts import STEP_COLUMNS, Rollouts
from evenroll.collection.trial import Driver
from evenroll.domains.catalogue import get_domain
from evenroll.engine.blas import single_threaded_blas
from evenroll.engine.random import stream
from evenroll.estimators.score_regression import score_regression
from evenroll.evaluation import workers
from evenroll.evaluation.episode_blocks import ACTIONS, FEWEST, MOST_BLOCKS, Block, round_after
from evenroll.evaluation.workers import WorkersSource
from evenroll.samplers.table import get_sampler

STARTS = 7  # the branch of the seed tree for the environment's luck, in compiled code
DOMAINS, GYMNASIUM = ("cartpole", "cartpole-continuous"), {"CartPole-v1": 6_000, "InvertedPendulum-v5": 8_000}
Schedule = Callable[[int], list[Block]]


def rounds_of(size: int, blocks: int) -> Schedule:
    def after(episodes: int) -> list[Block]:
        return [Block(episodes + i * size, size, blocks == 1) for i in range(blocks)]

    return after


def share(most: float) -> Schedule:
    """The default's rounds, with another share of the episodes so far that a round may add."""

    def after(episodes: int) -> list[Block]:
        size = FEWEST
        while 2 * size <= most * episodes:
            size *= 2
        each = size // min(size, MOST_BLOCKS)
        return [Block(first, each, False) for first in range(episodes, episodes + size, each)]

    return after


SCHEDULES: dict[str, Schedule] = {"no delay": rounds_of(1, 1), "default": round_after}
SCHEDULES |= {"1/32": share(1 / 32), "1/8": share(1 / 8), "1/4": share(1 / 4)}
SCHEDULES |= {f"{size} x {blocks}": rounds_of(size, blocks) for size in (1, 4, 16) for blocks in (2, 8, 32)}


def in_compiled_code(name: str, sampler: str, schedule: Schedule, episodes: int, seed: tuple[int, ...]) -> Rollouts:
    """A trial of a built-in domain in rounds. The last one may bring more episodes than were asked for."""
    domain = get_domain(name)
    policy, env = domain.policy(), domain.trial_environment(seed)

    def driver() -> Driver:
        chosen = get_sampler(sampler, domain.paper)
        return Driver(policy, chosen, seed, gamma=domain.gamma, horizon=domain.horizon, record_steps=True)

    balance, worker, parts, done, steps = driver().balance, driver(), list[Rollouts](), 0, 0
    while done < episodes:
        blocks, gained = schedule(done), []
        count = sum(block.count for block in blocks)
        state = snapshot(balance, len(blocks), count * steps / max(done, 1))
        for block in blocks:
            take_over(worker.balance, state)
            worker.balance.stream[...] = stream(*seed, ACTIONS, block.first)
            worker._env_stream[...] = stream(*seed, STARTS, block.first)
            parts.append(worker.run(env, episodes=block.count))
            gained.append(added(worker.balance, state, block.alone))
            steps += parts[-1].steps
        merge(balance, gained)
        done += count
    ends = np.concatenate([p.ends + n for p, n in zip(parts, np.cumsum([0, *(p.steps for p in parts)]), strict=False)])
    names = ("returns", "terminated", "log_weights", *(n for n in STEP_COLUMNS if getattr(parts[0], n) is not None))
    columns = {n: np.concatenate([getattr(p, n) for p in parts]) for n in names}
    whole = Rollouts(domain.gamma, steps, ends=ends, horizon=domain.horizon, **columns)
    return whole.prefix(int(ends[episodes - 1]))


def through_gymnasium(name: str, model: Path, sampler: str, schedule: Schedule, episodes: int, seed: int) -> Rollouts:
    workers.round_after = lambda done, balanced: schedule(done)  # type: ignore[assignment]
    source = WorkersSource(name, model, sampler, gamma=0.99, seed=seed, workers=1, resets=0)
    try:
        list(source.collect(episodes, None, at_once=True))
        return source.rollouts()
    finally:
        source.close()


def estimates(task: str, sampler: str, schedule: Schedule, episodes: int, trials: range, where: Path) -> np.ndarray:
    """[trials, 2]: the plain mean, and the score estimate."""
    found = []
    policy = get_domain(task).policy() if task in DOMAINS else None
    model = where / f"{task}.zip"
    if policy is None:
        import gymnasium as gym

        env = gym.make(task)
        policy = as_model(str(model), env.observation_space, env.action_space).engine
    for trial in trials:
        if task in DOMAINS:
            data = in_compiled_code(task, sampler, schedule, episodes, (2026, trial))
        else:
            data = through_gymnasium(task, model, sampler, schedule, episodes, trial)
        found.append((float(data.returns.mean()), score_regression(data, policy).value))
    return np.array(found)


def ratio(errors: np.ndarray, without: np.ndarray) -> tuple[float, float]:
    """MSE / MSE without delay, and its standard error by the jackknife over trials."""
    a, b = errors**2, without**2
    left_out = (a.sum() - a) / (b.sum() - b)
    n = len(a)
    return float(a.sum() / b.sum()), float(np.sqrt((n - 1) / n * ((left_out - left_out.mean()) ** 2).sum()))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tasks", nargs="+", default=[*DOMAINS, *GYMNASIUM], choices=[*DOMAINS, *GYMNASIUM])
    parser.add_argument("--episodes", nargs="+", type=int, default=[64, 512])
    parser.add_argument("--schedules", nargs="+", default=list(SCHEDULES), choices=list(SCHEDULES))
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="the first trial's number, to add to another run")
    parser.add_argument("--sampler", default="auto")
    parser.add_argument("--models", type=Path, default=Path("build/how_good"), help="where PPO models are kept")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    rows, numbers = [], range(given.first, given.first + given.trials)
    for task in given.tasks:
        if task in GYMNASIUM:
            from tools.how_good import trained

            given.models.mkdir(parents=True, exist_ok=True)
            trained(task, GYMNASIUM[task], given.models)
        for episodes in given.episodes:
            found: dict[str, np.ndarray] = {}
            for name in ("no delay", *(s for s in given.schedules if s != "no delay")):
                started = time.perf_counter()
                with single_threaded_blas():
                    found[name] = estimates(task, given.sampler, SCHEDULES[name], episodes, numbers, given.models)
                known = get_domain(task).known_truth(get_domain(task).policy()) if task in DOMAINS else None
                truth = float(np.concatenate(list(found.values()))[:, 1].mean()) if known is None else known.value
                row = {"task": task, "episodes": episodes, "schedule": name, "trials": given.trials}
                text = f"{task:20} {episodes:4} {name:9}"
                for i, how in enumerate(("mean", "score")):
                    errors, without = found[name][:, i] - truth, found["no delay"][:, i] - truth
                    value, error = ratio(errors, without)
                    row |= {how: value, f"{how}_se": error, f"{how}_bias": float(errors.mean())}
                    row |= {f"{how}_rmse": float(np.sqrt((errors**2).mean()))}
                    text += f"  {how}: {value:.3f} ± {error:.3f} (rmse {row[f'{how}_rmse']:.3g}, bias {errors.mean():+.3f})"
                rows.append(row)
                print(f"{text}  {time.perf_counter() - started:.0f} s", flush=True)
    if given.json is not None:
        given.json.write_text(json.dumps({"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
