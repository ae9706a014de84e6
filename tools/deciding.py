"""How often verdicts are wrong, and how many episodes they take: the proof behind docs/experiments-deciding.md.

    python -m tools.deciding outcomes                                # success rates, P from 0.02 to 0.98, independent
    python -m tools.deciding successes                               # the same of episodes that a sampler has collected
    python -m tools.deciding tracks cartpole --sampler auto --runs 300 --pairs 100 --store tracks
    python -m tools.deciding tracks CartPole-v1 --policy model.zip --gamma 0.99 --sampler auto --runs 300 --store tracks
    python -m tools.deciding wrong tracks/*.npz                      # of equal policies
    python -m tools.deciding races cartpole --policy a.safetensors --policy b.safetensors --runs 100 --json races.json
    python -m tools.deciding fresh cartpole --policy best.safetensors --episodes 12 --runs 2000
    python -m tools.deciding skewed                                  # skewed differences with mean 0, and what it costs
    python -m tools.deciding power tracks/cartpole-auto.npz tracks/cartpole-os.npz tracks/cartpole-os-plain.npz

A *track* is a run of two equal policies with other starts and other luck, fitted after every look. A difference of the
policies is added afterwards: a constant in every pair, which the fit takes as it is. So one track serves for every effect,
given in standard deviations of the on-policy paired difference. *Fixed* is the paired t test on on-policy data with the
number of pairs that gives it a power of 80 %. `most` is chosen for each test and effect so that its power is 80 % too.

*Races* are `best` with at most M rounds against equal allocation: 3, 6, 12, … rounds of every policy, on-policy or
balanced, on shared starts, after which the one with the largest mean (or estimate) is taken. Both say how often they are
right and how many steps they take; the steps of the winner's fresh episodes are not counted. *Fresh* is the value that a
race tells of its winner: an evaluation of a few on-policy episodes, whose mean has no bias. It says how far the default
estimate lies from that mean, and both from the truth.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from scipy import stats

from evenroll.adapters.loading import load_any_policy, load_domain, load_environment
from evenroll.engine.blas import single_threaded_blas
from evenroll.estimators.score_regression import ScoreRegression, score_regression
from evenroll.estimators.skewness import skewness
from evenroll.evaluation.deciding import UNDECIDED, Looking, Question
from evenroll.evaluation.evaluate import evaluate
from evenroll.evaluation.pairs import Fitted, fitted, side_of, sources_for
from evenroll.evaluation.race import best
from evenroll.intervals.independent import Interval
from evenroll.intervals.sequential import (
    FIRST,
    HOPELESS,
    PATIENT,
    chance_to_decide,
    fixed_size,
    for_rare_failures,
    levels,
    looks,
)
from evenroll.intervals.skewed import for_skewness
from evenroll.intervals.success_pairs import paired_shares, success_test
from evenroll.policies import TabularSoftmax

EFFECTS = (0.25, 0.5, 1.0)
RATES = (0.02, 0.05, 0.1, 0.3, 0.5, 0.7, 0.9, 0.95, 0.98)  # of success
OTHER_LUCK = 500_000  # is added to the seed of the second of two equal policies


def tracks(arguments: argparse.Namespace) -> None:
    """Collect tracks, and store them: for every run and every look the differences, the fit's value, error and freedom."""
    domain = load_domain(arguments.env)
    env = domain or load_environment(arguments.env, None, None)
    policy = None if arguments.policy is None else load_any_policy(arguments.policy)
    when = list(range(FIRST, arguments.pairs + 1)) if arguments.every else list(looks(arguments.pairs))
    values = np.full((arguments.runs, len(when), 5), np.nan)
    gaps = np.zeros((arguments.runs, arguments.pairs))
    started = time.perf_counter()
    kind = f"{arguments.sampler.split(':')[0]}{'-every' * arguments.every}{'-plain' * arguments.plain}"
    path = arguments.store / f"{arguments.env.replace(':', '-')}-{kind}.npz"
    arguments.store.mkdir(parents=True, exist_ok=True)
    with single_threaded_blas():
        for run in range(arguments.runs):
            sources = [
                sources_for(env, [policy], arguments.sampler, [None], gamma=arguments.gamma, seed=seed, horizon=None,
                            deterministic=False, resets=arguments.resets)[0]
                for seed in (run, OTHER_LUCK + run)
            ]  # fmt: skip
            for i, n in enumerate(when if not arguments.plain else when[-1:]):
                for source in sources:
                    list(source.collect(n, None, at_once=True))
                if arguments.plain:
                    found = Fitted(np.subtract(*(side_of(source, "return").values for source in sources)), None)
                    continue
                found = fitted(*(side_of(source, "return", n) for source in sources))
                if found.fit is not None:
                    fit = found.fit
                    values[run, i] = fit.value, fit.error, fit.freedom, fit.unseen, fit.skewness
            gaps[run] = found.gaps
            if run % 20 == 19 or run + 1 == arguments.runs:
                print(
                    f"{arguments.env} {arguments.sampler}: {run + 1} runs, {time.perf_counter() - started:.0f} s", flush=True
                )
                np.savez(path, when=when, values=values[: run + 1], gaps=gaps[: run + 1])


class Tracks:
    """Stored tracks. `verdicts` decides them, with a constant added to every pair."""

    def __init__(self, path: Path) -> None:
        stored = np.load(path)
        self.name, self.when, self.values, self.gaps = path.stem, stored["when"], stored["values"], stored["gaps"]

    def interval(self, run: int, i: int, level: float, plain: bool) -> tuple[float, float] | None:
        n = int(self.when[i])
        value, error, freedom, unseen, skewness = self.values[run, i]
        gaps = self.gaps[run, :n]
        if plain:  # the mean of the pairs, and Student's t
            half = float(stats.t.isf(level / 2, n - 1)) * gaps.std(ddof=1) / math.sqrt(n)
            return gaps.mean() - half, gaps.mean() + half
        if math.isnan(value):
            return None
        fit = ScoreRegression(value, error, int(freedom), float(gaps.mean()) - value, unseen, skewness=skewness)
        made = Fitted(gaps, fit).at(1.0 - level).interval
        if not isinstance(made, Interval):
            return None
        made = for_rare_failures(made, value, n)
        return made.low, made.high

    def verdicts(self, most: int, shift: float, plain: bool = False, alpha: float = 0.05) -> tuple[np.ndarray, np.ndarray]:
        """(verdict of every run: 1, −1 or 0; pairs that it took), where at most so many pairs are collected."""
        whole = looks(most) if len(self.when) < self.gaps.shape[1] - FIRST else tuple(range(FIRST, most + 1))
        steps = dict(zip(whole, levels(whole, alpha), strict=True))
        at = [i for i, n in enumerate(self.when) if int(n) in steps]
        assert {int(self.when[i]) for i in at} == set(whole), "the tracks have no such look"
        verdict, taken = np.zeros(len(self.gaps), dtype=int), np.full(len(self.gaps), most)
        for run in range(len(self.gaps)):
            for i in at:
                n = int(self.when[i])
                found = self.interval(run, i, steps[n], plain)
                if found is not None and (found[0] + shift > 0.0 or found[1] + shift < 0.0):
                    verdict[run], taken[run] = (1 if found[0] + shift > 0.0 else -1), n
                    break
                if found is not None and n >= PATIENT * most and self._chance(run, i, most, shift, plain) <= HOPELESS:
                    taken[run] = n
                    break
        return verdict, taken


    def _chance(self, run: int, i: int, most: int, shift: float, plain: bool) -> float:
        """How likely there will be a verdict, as evaluation/deciding.py sees it."""
        n, (value, error) = int(self.when[i]), self.values[run, i, :2]
        if not plain:
            return chance_to_decide(value + shift, error, n, most, (0.0, 0.0))
        gaps = self.gaps[run, :n]
        return chance_to_decide(gaps.mean() + shift, gaps.std(ddof=1) / math.sqrt(n), n, most, (0.0, 0.0), lucky=1.0)


def wrong(arguments: argparse.Namespace) -> None:
    """How often equal policies are told apart."""
    all_wrong = all_runs = 0
    for path in arguments.tracks:
        track = Tracks(path)
        most = int(track.when[-1])
        verdict, _ = track.verdicts(most, 0.0, plain=track.name.endswith("-plain"))
        count, runs = int((verdict != 0).sum()), len(verdict)
        all_wrong, all_runs = all_wrong + count, all_runs + runs
        print(f"{track.name}: {_rate(count, runs)} of {runs} runs, at most {most} pairs, {len(track.when)} looks")
    print(f"all: {_rate(all_wrong, all_runs)} of {all_runs} runs")


def _rate(count: int, runs: int) -> str:
    found = stats.binomtest(count, runs).proportion_ci(0.95)
    return f"{count / runs:.4f} [{found.low:.4f}, {found.high:.4f}]"


def power(arguments: argparse.Namespace) -> None:
    """Episodes of each policy at 80 % power: balanced, on-policy with the same test, on-policy with a sequential t test."""
    balanced, on_policy, plain = (Tracks(path) for path in (arguments.balanced, arguments.on_policy, arguments.plain))
    deviation = float(plain.gaps.std(ddof=1))
    ways = {"balanced": (balanced, False), "on-policy, the same test": (on_policy, False), "on-policy, t": (plain, True)}
    for effect in EFFECTS:
        fixed = fixed_size(effect, 1.0, 0.95)
        print(f"effect {effect} (fixed size {fixed}):")
        for name, (track, plain) in ways.items():
            most, taken, reached = _at_power(track, effect * deviation, plain)
            print(f"  {name}: {taken:.1f} pairs = {taken / fixed:.2f} of the fixed size, most {most}, power {reached:.2f}")


def _at_power(track: Tracks, shift: float, plain: bool) -> tuple[int, float, float]:
    """The smallest limit with a power of 80 % (or the largest there is), the mean number of pairs, and the power."""
    limits = [int(n) for n in track.when]
    low, high = 0, len(limits) - 1
    while low < high:
        middle = (low + high) // 2
        verdict, _ = track.verdicts(limits[middle], shift, plain)
        low, high = (low, middle) if float((verdict > 0).mean()) >= 0.8 else (middle + 1, high)
    verdict, taken = track.verdicts(limits[low], shift, plain)
    return limits[low], float(taken.mean()), float((verdict > 0).mean())


def outcomes(arguments: argparse.Namespace) -> None:
    """Success rates on independent data: wrong verdicts, coverage when stopped, and episodes against Barnard's test."""
    rng = np.random.default_rng(arguments.seed)
    count = runs = 0
    for rate in RATES:
        for most in (50, 200):
            found = [_outcome_run(rng, rate, rate, most) for _ in range(arguments.runs)]
            wrong_ones, held = sum(v != 0 for v, _, _, _ in found), sum(low <= 0.0 <= high for _, _, low, high in found)
            count, runs = count + wrong_ones, runs + len(found)
            print(
                f"P = {rate}, most {most}: wrong {_rate(wrong_ones, len(found))}, "
                f"interval holds 0 in {held / len(found):.4f}",
                flush=True,
            )
    print(f"all: wrong {_rate(count, runs)} of {runs} runs")
    ratios = []
    for first, second in ((0.5, 0.7), (0.5, 0.8), (0.5, 0.9), (0.8, 0.95), (0.1, 0.3), (0.2, 0.5), (0.3, 0.9)):
        fixed = _barnard_size(first, second)
        low, high = fixed // 2, 3 * fixed
        while low < high:
            most = (low + high) // 2
            reached = np.mean([_outcome_run(rng, second, first, most)[0] > 0 for _ in range(1000)])
            low, high = (low, most) if reached >= 0.8 else (most + 1, high)
        found = [_outcome_run(rng, second, first, low) for _ in range(arguments.runs)]
        taken, reached = np.mean([n for _, n, _, _ in found]), np.mean([v > 0 for v, _, _, _ in found])
        held = np.mean([lo <= second - first <= hi for _, _, lo, hi in found])
        ratios.append(taken / fixed)
        print(f"{first} against {second}: Barnard {fixed} of each, here {taken:.1f} ({taken / fixed:.2f}), most {low}, "
              f"power {reached:.2f}, interval holds {held:.3f}", flush=True)  # fmt: skip
    print(f"mean ratio {np.mean(ratios):.3f}")


class Attempt(gym.Env[int, int]):
    """Three steps with two actions each. The more often the second one is taken, the likelier is a success; P on average."""

    observation_space, action_space = gym.spaces.Discrete(3), gym.spaces.Discrete(2)

    def __init__(self, rate: float) -> None:
        self.rate, self.t, self.luck = rate, 0, 0.0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.t, self.luck = 0, 0.0
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.t, self.luck = self.t + 1, self.luck + int(action) - 0.5
        if self.t < 3:
            return self.t, 0.0, False, False, {}
        chance = self.rate + 0.6 * min(self.rate, 1.0 - self.rate) * self.luck  # luck is 1.5 at most
        won = bool(self.np_random.random() < chance)
        return 0, float(won), True, False, {"is_success": won}


def successes(arguments: argparse.Namespace) -> None:
    """How often two equal policies are told apart by their success, on-policy and balanced, as `difference` looks at it."""
    policy = TabularSoftmax(np.zeros((3, 2)))
    for sampler in ("os", "auto"):
        count = runs = 0
        for rate in RATES:
            env, told = Attempt(rate), 0
            for run in range(arguments.runs):
                sources = [
                    sources_for(env, [policy], sampler, [None], gamma=None, seed=seed, horizon=None, deterministic=False,
                                resets=0)[0]
                    for seed in (arguments.seed + run, arguments.seed + OTHER_LUCK + run)
                ]  # fmt: skip
                looking = Looking(sources, Question(), arguments.most, 0.95, "success")
                told += looking.run((0, 0), lambda n, found: None).verdict != UNDECIDED
            count, runs = count + told, runs + arguments.runs
            print(f"{sampler}, P = {rate}: wrong {_rate(told, arguments.runs)}", flush=True)
        print(f"{sampler}: wrong {_rate(count, runs)} of {runs} runs", flush=True)


def skewed(arguments: argparse.Namespace) -> None:
    """How often skewed differences of mean 0 have a verdict within 60 pairs, for several allowances; and the pairs that
    normal differences take."""
    rng, most, runs = np.random.default_rng(arguments.seed), 60, arguments.runs
    bulk = rng.normal(0.05 / 0.95, 0.05, (runs, most))
    kinds = {
        "normal": rng.normal(size=(runs, most)),
        "exponential": rng.exponential(size=(runs, most)) - 1.0,
        "lognormal": np.exp(rng.normal(size=(runs, most))) - math.exp(0.5),
        "gamma of shape 0.3": rng.gamma(0.3, size=(runs, most)) - 0.3,
        "a failure in twenty": np.where(rng.random((runs, most)) < 0.05, -1.0, bulk),
    }
    for times in (0.0, 8.0, 16.0, 32.0):
        for name, values in kinds.items():
            verdicts, _ = zip(*(_skewed_run(row, times) for row in values), strict=True)
            print(f"{times:g} γ²/n, {name}: {_rate(int(np.count_nonzero(verdicts)), runs)}", flush=True)
        for effect in (0.5, 1.0):
            taken = np.mean([_skewed_run(row + effect, times)[1] for row in kinds["normal"]])
            print(f"{times:g} γ²/n, normal, effect {effect}: {taken:.1f} pairs", flush=True)


def _skewed_run(values: np.ndarray, times: float) -> tuple[int, int]:
    """(verdict, pairs) of one run of plain differences."""
    when = looks(len(values))
    for n, level in zip(when, levels(when, 0.05), strict=True):
        some = values[:n]
        mean, half = float(some.mean()), _student(level, n) * float(some.std(ddof=1)) / math.sqrt(n)
        plain = Interval(mean - half, mean + half, 1.0 - level, "t", skewness=skewness(some))
        made = for_skewness(plain, mean, n, times)
        if made.low > 0.0 or made.high < 0.0:
            return (1 if made.low > 0.0 else -1), n
    return 0, len(values)


@functools.cache
def _student(level: float, n: int) -> float:
    return float(stats.t.isf(level / 2, n - 1))


def races(arguments: argparse.Namespace) -> None:
    """How often `best` is right and how many steps it takes, what the same number of rounds for everybody gives, and how
    far the winner's value is off."""
    env = load_domain(arguments.env) or load_environment(arguments.env, None, None)
    policies = {str(i): load_any_policy(path) for i, path in enumerate(arguments.policy)}
    settings: dict[str, Any] = {"gamma": arguments.gamma, "horizon": None, "deterministic": False, "resets": None}
    truth = [_truth(env, policy, arguments) for policy in policies.values()]
    print("truth:", ", ".join(f"{value:.3f}" for value in truth), flush=True)
    found: list[dict[str, Any]] = []
    for run in range(arguments.runs):
        race = best(env, policies, most=arguments.most, margin=arguments.margin, gamma=arguments.gamma, seed=run)
        own = truth[int(race.winner)]
        fresh = race.fresh
        assert fresh is not None
        found.append({
            "winner": int(race.winner), "decided": race.decided, "rounds": race.rounds, "steps": race.steps - fresh.steps,
            "fresh_off": race.value - own, "race_off": race.runners[0].value - own, "fresh_half": fresh.half_width,
            "equal": {kind: _equal(env, policies, kind, arguments.equal, run, settings) for kind in arguments.kinds},
        })  # fmt: skip
        if run % 10 == 9 or run + 1 == arguments.runs:
            _tell_races(found, truth, arguments.margin, arguments.equal)
            if arguments.json:
                arguments.json.write_text(json.dumps({"truth": truth, "races": found}) + "\n")


def _truth(env: Any, policy: Any, arguments: argparse.Namespace) -> float:
    settings: dict[str, Any] = {"gamma": arguments.gamma, "seed": 77, "resets": 0}
    return float(evaluate(env, policy, estimator="mc", sampler="os", episodes=arguments.truth, **settings))


def fresh(arguments: argparse.Namespace) -> None:
    """How far the default estimate of a few on-policy episodes lies from their mean and from the truth."""
    env = load_domain(arguments.env) or load_environment(arguments.env, None, None)
    for path in arguments.policy:
        policy = load_any_policy(path)
        truth = _truth(env, policy, arguments)
        found = np.zeros((arguments.runs, 2))
        for run in range(arguments.runs):
            settings: dict[str, Any] = {"gamma": arguments.gamma, "seed": 1_000_003 + run}
            result = evaluate(env, policy, sampler="os", episodes=arguments.episodes, **settings)
            found[run] = result.value, result.mean.value if result.mean is not None else result.value
        error = float(found[:, 0].std(ddof=1))
        rows = {"estimate − mean": found[:, 0] - found[:, 1], "estimate − truth": found[:, 0] - truth,
                "mean − truth": found[:, 1] - truth}  # fmt: skip
        print(f"{path}, {arguments.episodes} episodes, {arguments.runs} runs, in standard errors ({error:.3g}):")
        for name, off in rows.items():
            print(f"  {name}: {off.mean() / error:+.3f} ± {off.std(ddof=1) / error / arguments.runs**0.5:.3f}", flush=True)


def _equal(
    env: Any, policies: dict[str, Any], sampler: str, rounds: list[int], seed: int, settings: dict[str, Any]
) -> list[tuple[int, int]]:
    """(whom equal allocation chooses, the steps of all) after each of these numbers of rounds."""
    sources = sources_for(env, list(policies.values()), sampler, [None] * len(policies), seed=seed, **settings)
    values, steps = np.zeros((len(rounds), len(sources))), np.zeros(len(rounds), dtype=int)
    with single_threaded_blas():
        for j, source in enumerate(sources):
            for i, n in enumerate(rounds):
                list(source.collect(n, None, at_once=True))
                data = source.rollouts()
                values[i, j] = data.returns.mean() if sampler == "os" else score_regression(data, source.policy).value
                steps[i] += source.steps
            source.close()
    return [(int(np.argmax(row)), int(n)) for row, n in zip(values, steps, strict=True)]


def _tell_races(found: list[dict[str, Any]], truth: list[float], margin: float, rounds: list[int]) -> None:
    def good(who: int) -> bool:
        return truth[who] >= max(truth) - margin

    runs, steps = len(found), float(np.mean([race["steps"] for race in found]))
    right = sum(good(race["winner"]) for race in found)
    wrong = sum(race["decided"] and not good(race["winner"]) for race in found)
    decided = np.mean([race["decided"] for race in found])
    print(
        f"{runs} races: right {_rate(right, runs)}, decided {decided:.2f}, wrong although decided {wrong}, "
        f"{steps:,.0f} steps"
    )
    for kind in found[0]["equal"]:
        for i, n in enumerate(rounds):
            chosen, taken = zip(*(race["equal"][kind][i] for race in found), strict=True)
            print(f"  {n} rounds for all, {kind}: right {_rate(sum(map(good, chosen)), runs)}, {np.mean(taken):,.0f} steps; "
                  f"best takes {steps / np.mean(taken):.2f} of them")  # fmt: skip
    spread = float(np.std([race["fresh_off"] for race in found], ddof=1))
    for name in ("fresh_off", "race_off"):
        off = np.array([race[name] for race in found]) / spread
        print(f"  {name}, in standard errors of the fresh value: {off.mean():+.3f} ± {off.std(ddof=1) / runs**0.5:.3f}")
    sys.stdout.flush()


def _outcome_run(rng: np.random.Generator, first: float, second: float, most: int) -> tuple[int, int, float, float]:
    """(verdict, pairs, low, high) of one run, looked at after every pair, as evaluation/deciding.py does."""
    a, b = rng.random(most) < first, rng.random(most) < second
    wins, losses = np.cumsum(a & ~b), np.cumsum(b & ~a)
    when = looks(most)
    test = success_test(when, 0.05)
    for n, level in zip(when, levels(when, 0.05), strict=True):
        w, x = int(wins[n - 1]), int(losses[n - 1])
        sign = test.look(n, w, x)
        gap, error = (w - x) / n, math.sqrt(max((w + x - (w - x) ** 2 / n) / n, 1.0 / n) / n)
        hopeless = n >= PATIENT * most and chance_to_decide(gap, error, n, most, (0.0, 0.0), lucky=1.0) <= HOPELESS
        if sign or hopeless or n == most:
            low, high = paired_shares(w, x, n, level)
            if sign:
                low, high = (max(low, 0.0), high) if sign > 0 else (low, min(high, 0.0))
            else:
                low, high = min(low, 0.0), max(high, 0.0)
            return sign, n, low, high
    raise AssertionError


def _barnard_size(first: float, second: float, power: float = 0.8) -> int:
    """The smallest number of episodes of each at which Barnard's two-sided test at 5 % has the power."""
    rng = np.random.default_rng(0)
    z = 1.96 + 0.8416
    n = int(z**2 * (first * (1 - first) + second * (1 - second)) / (second - first) ** 2)
    n = max(4, int(0.75 * n))
    while True:
        draws = rng.binomial(n, [first, second], (2000, 2))
        pairs, counts = np.unique(draws, axis=0, return_counts=True)
        seen = sum(c for (x, y), c in zip(pairs, counts, strict=True) if y > x and _barnard(int(x), int(y), n) <= 0.05)
        if seen / 2000 >= power:
            return n
        n += max(1, n // 20)


_known: dict[tuple[int, int, int], float] = {}


def _barnard(x: int, y: int, n: int) -> float:
    if (x, y, n) not in _known:
        _known[x, y, n] = float(stats.barnard_exact([[x, y], [n - x, n - y]], n=16).pvalue)
    return _known[x, y, n]


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands: Any = parser.add_subparsers(required=True)
    one = commands.add_parser("tracks")
    one.add_argument("env")
    one.add_argument("--policy")
    one.add_argument("--gamma", type=float)
    one.add_argument("--sampler", default="auto")
    one.add_argument("--runs", type=int, default=300)
    one.add_argument("--pairs", type=int, default=100)
    one.add_argument("--resets", type=int)
    one.add_argument("--plain", action="store_true", help="no fits: for a test of the plain differences")
    one.add_argument("--every", action="store_true", help="look after every pair")
    one.add_argument("--store", type=Path, default=Path("tracks"))
    one.set_defaults(run=tracks)
    one = commands.add_parser("wrong")
    one.add_argument("tracks", type=Path, nargs="+")
    one.set_defaults(run=wrong)
    one = commands.add_parser("power")
    one.add_argument("balanced", type=Path)
    one.add_argument("on_policy", type=Path)
    one.add_argument("plain", type=Path)
    one.set_defaults(run=power)
    one = commands.add_parser("outcomes")
    one.add_argument("--runs", type=int, default=1000)
    one.add_argument("--seed", type=int, default=0)
    one.set_defaults(run=outcomes)
    one = commands.add_parser("successes")
    one.add_argument("--runs", type=int, default=300)
    one.add_argument("--most", type=int, default=60)
    one.add_argument("--seed", type=int, default=0)
    one.set_defaults(run=successes)
    one = commands.add_parser("races")
    one.add_argument("env")
    one.add_argument("--policy", action="append", required=True)
    one.add_argument("--gamma", type=float)
    one.add_argument("--runs", type=int, default=100)
    one.add_argument("--most", type=int, default=100)
    one.add_argument("--equal", type=int, nargs="+", default=[3, 6, 12, 24, 48], help="rounds of equal allocation")
    one.add_argument("--kinds", nargs="+", default=["os"], choices=["os", "auto"], help="samplers of equal allocation")
    one.add_argument("--margin", type=float, default=0.0)
    one.add_argument("--truth", type=int, default=20_000, help="episodes of each policy for the truth")
    one.add_argument("--json", type=Path)
    one.set_defaults(run=races)
    one = commands.add_parser("fresh")
    one.add_argument("env")
    one.add_argument("--policy", action="append", required=True)
    one.add_argument("--gamma", type=float)
    one.add_argument("--episodes", type=int, default=12)
    one.add_argument("--runs", type=int, default=2000)
    one.add_argument("--truth", type=int, default=40_000, help="episodes for the truth")
    one.set_defaults(run=fresh)
    one = commands.add_parser("skewed")
    one.add_argument("--runs", type=int, default=4000)
    one.add_argument("--seed", type=int, default=1)
    one.set_defaults(run=skewed)
    arguments = parser.parse_args(words)
    arguments.run(arguments)


if __name__ == "__main__":
    main()
