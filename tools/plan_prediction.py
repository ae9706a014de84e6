"""What `evenroll plan` predicts from 32 episodes, over what is then needed.

    python -m tools.plan_prediction --repeats 60 --json plan.json

The half-width that is asked for is the median of evaluations with N episodes, so that N are needed by definition. The pilots
are the first 32 episodes of those evaluations. For plain on-policy sampling (1.96 σ/W)² are needed; σ comes from all runs.
Policies as in tools/stopping_coverage.py.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path

import numpy as np
import torch

from evenroll.adapters.model import as_model
from evenroll.adapters.vector_environments import spaces_of
from evenroll.domains.domain import Domain
from evenroll.engine.blas import single_threaded_blas
from evenroll.estimators import get_estimator
from evenroll.evaluation.interruption import seen
from evenroll.evaluation.looking import Look
from evenroll.evaluation.plan import predict
from evenroll.intervals.independent import Interval
from evenroll.intervals.stopping import Target
from evenroll.samplers.table import get_sampler
from evenroll.study.coverage_runs import Runs, beginning
from tools.stopping_coverage import place

HERE = ("cartpole", "cartpole-continuous", "bandit", "CartPole-v1", "Pendulum-v1", "InvertedPendulum-v5")


def study(name: str, policies: Path, shipped: bool, pilot: int, needed: int, repeats: int) -> dict:
    where, policy, settings = place(name, policies, shipped)
    settings.pop("truth_episodes", None)
    if isinstance(where, Domain):
        sampler, policy = get_sampler("auto", where.paper), policy or where.policy()
    else:
        sampler, policy = get_sampler("auto"), as_model(policy, *spaces_of(where))
    look = Look(get_estimator("score"))
    runs = Runs(where, policy, sampler, (look,), (needed,), 0.95, seed=5, **settings)
    halves, pilots, variances = [], [], []
    with single_threaded_blas():
        for i in range(repeats):
            source = runs.source(i)
            list(source.collect(needed, None, at_once=True))
            data = source.rollouts()
            _, interval = seen(source, data).look(look, 0.95)
            if isinstance(interval, Interval):
                halves.append(interval.half_width)
            variances.append(data.returns.var(ddof=1))
            pilots.append(seen(source, beginning(data, pilot)))
        goal = float(np.median(halves))
        plans = [predict(this, look, Target(goal), 0.95) for this in pilots]
    ours = np.array([p.evenroll.episodes for p in plans if p.evenroll]) / needed
    theirs = np.array([p.on_policy.episodes for p in plans if p.on_policy]) / (1.96**2 * np.mean(variances) / goal**2)
    inside = np.mean([p.evenroll.low <= needed <= p.evenroll.high for p in plans if p.evenroll])
    return {
        "where": name, "pilot": pilot, "needed": needed, "repeats": repeats, "without": repeats - len(ours),
        "ours": float(np.median(ours)), "ours_quartiles": [float(q) for q in np.quantile(ours, (0.25, 0.75))],
        "theirs": float(np.median(theirs)), "theirs_quartiles": [float(q) for q in np.quantile(theirs, (0.25, 0.75))],
        "range_holds": float(inside),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--where", nargs="+", default=list(HERE))
    parser.add_argument("--pilot", type=int, default=32)
    parser.add_argument("--needed", nargs="+", type=int, default=[128, 400])
    parser.add_argument("--repeats", type=int, default=60)
    parser.add_argument("--shipped", action="store_true", help="the domains' own policies")
    parser.add_argument("--policies", type=Path, default=Path("policies"))
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", category=UserWarning)
    torch.set_num_threads(1)
    arguments.policies.mkdir(exist_ok=True)
    results = []
    for name in arguments.where:
        for needed in arguments.needed:
            found = study(name, arguments.policies, arguments.shipped, arguments.pilot, needed, arguments.repeats)
            results.append(found)
            a, b = found["ours_quartiles"]
            c, d = found["theirs_quartiles"]
            print(
                f"{name}, {needed} needed: predicted/needed {found['ours']:.2f} [{a:.2f}, {b:.2f}], on-policy "
                f"{found['theirs']:.2f} [{c:.2f}, {d:.2f}], range holds {found['range_holds']:.2f}",
                flush=True,
            )
        if arguments.json:
            arguments.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
