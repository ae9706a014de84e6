"""All samplers against on-policy sampling: a table that anyone can make again, also with other seeds.

Every error is relative to the error of on-policy Monte Carlo with as many steps, which theory gives as Var[return] / (n v²).
That error falls as 1/n, so a ratio of ¼ is the accuracy of four times as many on-policy steps: "times fewer steps" is
1/ratio. A sampler's data is collected once per trial and handed to each of its estimators.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from evenroll.adapters.loading import as_domain
from evenroll.domains.catalogue import DOMAINS
from evenroll.domains.domain import Domain, Truth
from evenroll.errors import EvenrollError, SpecError
from evenroll.executors.pool import Pool, get_pool, in_order
from evenroll.files.figures import save_figure
from evenroll.files.safe_files import write_atomically
from evenroll.policies import Policy
from evenroll.samplers import Sampler
from evenroll.samplers.table import specification
from evenroll.study.blocks import Block, Work, resolve
from evenroll.study.curve import finite_list
from evenroll.study.method import Method, MethodLike, MethodSpec, get_method
from evenroll.study.runner import ensure
from evenroll.study.store import Store
from evenroll.study.trials import Trials, run_trial
from evenroll.study.true_value import truth

BUDGETS = (32, 128, 512, 2048, 8192)  # in mean episode lengths; the last one is the paper's budget
QUICK_BUDGETS, QUICK_TRIALS = (32, 128, 512), 16
# By default every sampler runs with every estimator, with two exceptions: networks that are trained anew for each estimate
# take minutes apiece, and wis+mc is the same as mc here. Where a sampler cannot run a domain's policy, it is left out.
SAMPLER_NAMES = ("os", "auto", "ros", "ros-episode", "ros-head", "roa", "props", "bpg", "odi", "revar")
ESTIMATOR_NAMES = ("mc", "score", "wris", "ris", "fqe", "dr", "wdr", "ois", "wis", "pdis")
METHODS = tuple(f"{sampler}/{estimator}" for sampler in SAMPLER_NAMES for estimator in ESTIMATOR_NAMES)
DRAWN = (  # in the picture: each sampler with the estimator meant for it, and on-policy data with the better estimators
    "os/mc", "os/wris", "os/fqe", "os/score", "auto/mc", "auto/score", "ros/mc", "ros-episode/mc", "ros-head/mc",
    "roa/mc", "props/mc", "bpg/ois", "odi/pdis", "revar/fqe",
)  # fmt: skip
TIMED = 3  # trials whose collecting is timed, where the others may have been there
Z = 1.96  # the normal quantile of a 95 % interval
SMALLEST = 1e-6  # smaller ratios are not written out: the estimate is exact up to rounding (fqe on a table without noise)


@dataclass(frozen=True)
class BoardRow:
    """One method on one domain. Arrays run over the budgets. `ratio` is MSE / on-policy theory, with a 95 % interval."""

    method: str
    mse: np.ndarray
    mse_se: np.ndarray
    theory: np.ndarray
    bias: np.ndarray
    missing: np.ndarray  # trials without an estimate; they enter no average
    runaway: int  # trials in which the behaviour ran away from π_e
    microseconds: float  # of collecting, per step on one thread

    @property
    def ratio(self) -> np.ndarray:
        return np.asarray(self.mse / self.theory)

    def bound(self, side: int) -> np.ndarray:
        """The lower (−1) or upper (+1) end of the interval, symmetric in the logarithm because squared errors are skewed."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(self.ratio * np.exp(side * Z * self.mse_se / self.mse))

    def to_json(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "mse": finite_list(self.mse),
            "mse_se": finite_list(self.mse_se),
            "ratio": finite_list(self.ratio),
            "low": finite_list(self.bound(-1)),
            "high": finite_list(self.bound(1)),
            "times_fewer_steps": finite_list(1.0 / np.where(self.ratio > 0, self.ratio, np.nan)),
            "bias": finite_list(self.bias),
            "missing": [int(x) for x in self.missing],
            "runaway": self.runaway,
            "microseconds_per_step": round(self.microseconds, 3),
        }


@dataclass(frozen=True)
class Board:
    """One domain's part of the leaderboard. The method that is best at the largest budget comes first."""

    domain: str
    truth: Truth
    budgets: tuple[int, ...]
    steps: tuple[int, ...]
    trials: int
    seed: int
    rows: tuple[BoardRow, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "domain": self.domain,
            "value": self.truth.value,
            "value_se": self.truth.value_se,
            "variance": self.truth.variance,
            "mean_length": self.truth.mean_length,
            "trials": self.trials,
            "seed": self.seed,
            "budgets": list(self.budgets),
            "steps": list(self.steps),
            "methods": [row.to_json() for row in self.rows],
        }


# ---- running -------------------------------------------------------------------------------------------------


def leaderboard(
    domains: Sequence[str | Domain] = tuple(DOMAINS),
    *,
    methods: Sequence[MethodLike] = METHODS,
    budgets: Sequence[int] = BUDGETS,
    trials: int = 200,
    seed: int = 0,
    workers: int | None = None,
    executor: str | Pool = "threads",
    store: Store | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Board, ...]:
    """Run every method on every domain. The same seed gives the same errors for any number of workers, anywhere.

    store  where trials are kept, so that a run which was interrupted goes on; what names do not tell is not kept
    """
    pool = get_pool(executor, workers)
    if trials < 2:
        raise SpecError(f"trials must be at least 2, for intervals, not {trials}")
    resolved = [as_domain(domain) for domain in domains]
    if not resolved:
        raise SpecError("name at least one domain")
    for domain in resolved:
        if domain.redrawn:
            raise SpecError(f"{domain}: drawn anew in every trial, it has no one on-policy error to compare with")
    policies = [domain.policy() for domain in resolved]
    groups = [_by_sampler(domain, policy, methods) for domain, policy in zip(resolved, policies, strict=True)]
    total = trials * sum(len(g) for g in groups)
    done = 0

    def one_more() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, total)

    return tuple(
        _board(domain, policy, group, tuple(budgets), trials, seed, workers, pool, store, one_more)
        for domain, policy, group in zip(resolved, policies, groups, strict=True)
    )


def _by_sampler(domain: Domain, policy: Policy, methods: Sequence[MethodLike]) -> dict[tuple[Sampler, bool], list[Method]]:
    """The methods that can run this policy, grouped by how they collect and whether they start from data."""
    groups: dict[tuple[Sampler, bool], list[Method]] = {}
    for spec in methods:
        method = get_method(spec, domain)
        try:
            method.sampler.check(policy)
        except SpecError:
            continue
        groups.setdefault((method.sampler, method.initial), []).append(method)
    if not groups:
        raise SpecError(f"none of the methods can run on {domain}")
    return groups


def _board(
    domain: Domain,
    policy: Policy,
    groups: dict[tuple[Sampler, bool], list[Method]],
    budgets: tuple[int, ...],
    trials: int,
    seed: int,
    workers: int | None,
    pool: Pool,
    store: Store | None,
    one_more: Callable[[], None],
) -> Board:
    known = truth(domain, policy, seed=seed, workers=workers)
    steps = tuple(max(1, math.floor(known.mean_length * b)) for b in budgets)
    theory = known.variance / (np.array(steps) / known.mean_length * known.value**2)
    rows: list[BoardRow] = []
    for (sampler, initial), methods in groups.items():
        way = Trials(domain, policy, known, sampler, tuple(m.estimator for m in methods), steps, initial)
        run_trial(replace(way, checkpoints=(1,)), (seed, 0))  # compiles before the clock starts
        work = None if store is None else _work_of(way, methods, budgets, seed)
        if store is None or work is None:
            jobs = [(seed, t) for t in range(trials)]
            results = in_order(functools.partial(run_trial, way), jobs, pool, lambda done, total: one_more())
            errors = np.stack([r.values for r in results]) - 1.0  # [trials, methods, budgets]
            runaway, timed = sum(r.runaway for r in results), results
        else:
            errors, runaway = _kept(work, trials, pool, store, one_more)
            timed = [run_trial(replace(way, estimators=()), (seed, t)) for t in range(TIMED)]
        seconds = sum(r.seconds for r in timed) / len(timed)
        for i, method in enumerate(methods):
            rows.append(_row(str(method), errors[:, i], theory, runaway, 1e6 * seconds / steps[-1]))
    rows.sort(key=lambda row: (not np.isfinite(row.mse[-1]), row.mse[-1]))
    return Board(str(domain), known, budgets, steps, trials, seed, tuple(rows))


def _work_of(way: Trials, methods: list[Method], budgets: tuple[int, ...], seed: int) -> Work | None:
    """The same trials as a store keeps them, by names; None if names alone do not say what they are."""
    measures = tuple(MethodSpec.parse(str(method)).estimator for method in methods)
    collect = MethodSpec(specification(way.sampler), initial=way.initial).collect
    work = Work(str(way.domain), collect, measures, tuple(map(float, budgets)), seed=seed)
    try:
        found = resolve(work)
    except EvenrollError:
        return None
    same = found.sampler == way.sampler and found.estimators == way.estimators and found.truth == way.truth
    return work if same else None


def _kept(work: Work, trials: int, pool: Pool, store: Store, one_more: Callable[[], None]) -> tuple[np.ndarray, int]:
    """The errors [trials, methods, budgets] of trials that a store keeps, and in how many of them the behaviour ran away."""

    def done(block: Block, computed: bool) -> None:
        for _ in range(block.count):
            one_more()

    blocks = work.blocks(trials)
    found = ensure(store, blocks, pool=pool, done=done)
    values = np.concatenate([found[block].values for block in blocks])
    values = np.ascontiguousarray(values[:, :, -len(work.budgets) :])  # where there is initial data, 0 new steps come first
    return values - 1.0, int(sum(found[block].runaway.sum() for block in blocks))


def _row(method: str, errors: np.ndarray, theory: np.ndarray, runaway: int, microseconds: float) -> BoardRow:
    """The row of a method from the errors of its trials, [trials, budgets]."""
    missing = np.isnan(errors).sum(axis=0)
    n = np.maximum(len(errors) - missing, 1)
    squared = errors**2
    mse = np.where(missing < len(errors), np.nansum(squared, axis=0) / n, np.nan)
    se = np.sqrt(np.nansum((squared - mse) ** 2, axis=0) / np.maximum(n - 1, 1) / n)
    bias = np.where(missing < len(errors), np.nansum(errors, axis=0) / n, np.nan)
    return BoardRow(method, mse, np.where(n > 1, se, np.nan), theory, bias, missing, runaway, microseconds)


# ---- showing -------------------------------------------------------------------------------------------------


def markdown(boards: Sequence[Board]) -> str:
    """One table per domain."""
    lines = [
        "# Leaderboard",
        "",
        "MSE relative to on-policy Monte Carlo of as many steps, Var/(n v²) by theory; 1 is on-policy, smaller is better.",
        "Brackets: 95 % interval over trials. *Times fewer steps*: how many times as many steps on-policy sampling would",
        "need for the error at the largest budget, 1/ratio. *Bias*: share of the root MSE there. Budgets in mean episodes.",
        "No brackets: all trials are alike (greedy roa is not random), or the error is rounding. µs/step: of collecting.",
        "",
    ]
    for board in boards:
        known = board.truth
        exact = "exact" if known.value_se == 0 else f"± {known.value_se:.2g}"
        lines += [
            f"## {board.domain}",
            "",
            f"v = {known.value:.6g} ({exact}), T̄ = {known.mean_length:.4g}; {board.trials} trials, seed {board.seed}",
            "",
            "| method | " + " | ".join(f"{b:,}" for b in board.budgets) + " | times fewer steps | bias | µs/step |",
            "|---|" + "---|" * (len(board.budgets) + 3),
        ]
        lines += ["| " + " | ".join(cells(row)) + " |" for row in board.rows]
        lines.append("")
        if len(board.rows) > len(DRAWN):
            lines += [*matrix(board), ""]
    return "\n".join(lines)


def matrix(board: Board) -> list[str]:
    """A table of samplers × estimators with the ratio at the largest budget. A dash stands where there is no such row."""
    written = {MethodSpec.parse(row.method): row for row in board.rows}
    split = {(spec.collect, spec.estimator): row for spec, row in written.items()}
    samplers, estimators = (list(dict.fromkeys(x)) for x in zip(*split, strict=True))
    order = [e for e in ESTIMATOR_NAMES if e in estimators] + [e for e in estimators if e not in ESTIMATOR_NAMES]
    lines = [
        f"At {board.budgets[-1]:,}, by estimator:",
        "",
        "| | " + " | ".join(order) + " |",
        "|---|" + "---|" * len(order),
    ]
    for sampler in samplers:
        row = [split.get((sampler, e)) for e in order]
        lines.append(f"| {sampler} | " + " | ".join("–" if r is None else _short(r.ratio[-1]) for r in row) + " |")
    return lines


def cells(row: BoardRow) -> list[str]:
    """A row of the table as text: method, a ratio with its interval per budget, times fewer steps, bias, time."""
    low, high = row.bound(-1), row.bound(1)
    ratios = [_interval(*x) for x in zip(row.ratio, low, high, strict=True)]
    fewer = _interval(1 / row.ratio[-1], 1 / high[-1], 1 / low[-1]) if row.ratio[-1] > 0 else "–"
    share = f"{row.bias[-1] / math.sqrt(row.mse[-1]):+.2f}" if row.mse[-1] > 0 else "–"
    name = row.method + (" (ran away)" if row.runaway else "")
    name += f" ({row.missing[-1]} trials without an estimate)" if row.missing[-1] else ""
    return [name, *ratios, fewer, share, f"{row.microseconds:.2g}"]


def _interval(x: float, low: float, high: float) -> str:
    if not math.isfinite(x):
        return "–"
    shown = _short(x), _short(low), _short(high)
    return shown[0] if len(set(shown)) == 1 else f"{shown[0]} [{shown[1]}, {shown[2]}]"


def _short(x: float) -> str:
    if math.isnan(x):
        return "–"
    if not SMALLEST <= x <= 1 / SMALLEST:
        return f"< {SMALLEST:g}" if x < SMALLEST else f"> {1 / SMALLEST:,.0f}"
    return f"{x:.2g}" if x < 100 else f"{x:,.0f}"


def write(boards: Sequence[Board], directory: str | Path) -> list[Path]:
    """Write leaderboard.md, .json and .png into a directory, which is made if need be."""
    directory = Path(directory)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EvenrollError(f"cannot make {directory}: {error.strerror or error}") from None
    paths = [directory / f"leaderboard.{kind}" for kind in ("md", "json", "png")]
    write_atomically(paths[0], markdown(boards).encode())
    text = json.dumps({"boards": [board.to_json() for board in boards]}, indent=1, allow_nan=False)
    write_atomically(paths[1], text.encode())
    plot(boards, paths[2])
    return paths


STYLES = {  # the colour of each sampler, the same in every panel
    "os": "#7f7f7f", "auto": "#c44e52", "ros": "#4c72b0", "ros-episode": "#64b5cd", "ros-head": "#8172b3", "roa": "#55a868",
    "props": "#dd8452", "bpg": "#937860", "odi": "#da8bc3", "revar": "#ccb974", "off": "#333333",
}  # fmt: skip
DASHES = {"mc": "-", "ois": "-", "pdis": "-", "score": "--", "fqe": ":", "wris": "-."}


def plot(boards: Sequence[Board], path: str | Path) -> None:
    """A panel per domain: relative MSE against the budget, both on logarithmic scales, with 95 % intervals."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    columns = min(2, len(boards))
    rows = -(-len(boards) // columns)
    fig, axes = plt.subplots(rows, columns, figsize=(5.6 * columns, 3.9 * rows + 0.9), layout="constrained", squeeze=False)
    handles: dict[MethodSpec, Any] = {}
    for axis in axes.flat[len(boards) :]:
        axis.set_visible(False)
    for axis, board in zip(axes.flat, boards, strict=False):
        axis.axhline(1.0, color="0.6", lw=1)
        several = len(board.rows) > len(DRAWN)
        for row in board.rows:
            spec = MethodSpec.parse(row.method)
            short = replace(spec, sampler=spec.name)  # without parameters, which may differ from panel to panel
            name, estimator = short.collect, short.estimator
            if several and str(short) not in DRAWN:
                continue
            good = np.isfinite(row.ratio) & (row.ratio > 0) & (row.missing == 0)
            x, y = np.array(board.budgets)[good], row.ratio[good]
            colour = STYLES.get(name, "k")
            style = {"color": colour, "ls": DASHES.get(estimator, "-"), "lw": 2.6 if name == "auto" else 1.5}
            (handles[short],) = axis.plot(x, y, marker="o", ms=3.5, **style)
            axis.vlines(x, row.bound(-1)[good], row.bound(1)[good], color=colour, lw=0.8, alpha=0.5)
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        axis.set_xticks(board.budgets)
        axis.set_title(board.domain, fontsize=11, loc="left")
        axis.grid(True, which="major", color="0.92")
        axis.spines[["top", "right"]].set_visible(False)
        shown = np.concatenate([line.get_ydata() for line in axis.lines])
        axis.set_ylim(max(shown.min(initial=0.5) * 0.6, SMALLEST), min(max(shown.max(initial=1.0) * 1.4, 2.0), 12.0))
    for axis in axes[-1]:
        axis.set_xlabel("budget, mean episodes")
    for axis in axes[:, 0]:
        axis.set_ylabel("MSE / on-policy theory")
    places = {name: i for i, name in enumerate(STYLES)}
    order = sorted(handles, key=lambda spec: (places.get(spec.collect, len(places)), str(spec)))
    lines, names = [handles[spec] for spec in order], [str(spec) for spec in order]
    fig.legend(lines, names, loc="outside lower center", ncols=7, frameon=False, fontsize=8.5)
    fig.suptitle(f"Error relative to on-policy sampling with as many steps ({boards[0].trials} trials, 95 %)", fontsize=12)
    save_figure(fig, path)
