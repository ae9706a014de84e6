"""How often intervals hold the value when collecting stops as soon as they are narrow enough, at several widths.

    python -m tools.stopping_coverage --repeats 1000 --json stopping.json
    python -m tools.stopping_coverage --where CartPole-v1 Pendulum-v1 --repeats 200 --policies policies

The widths are the mean half-widths of evaluations with 12, 32, 128 and 320 episodes, so that runs stop after about twice as
many. Policies of environments are those of tools/how_good.py with training seed 1, those of domains are trained with seed
301, unless `--shipped` is given: nothing was tuned on them.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch

from evenroll.domains.catalogue import DOMAINS, get_domain
from evenroll.study.coverage import coverage_table
from evenroll.study.training import recipe_of, reinforce

SIZES = (12, 32, 128, 320)
METHODS = (("os", "mc"), ("os", "score"), ("auto", "score"))
UNSEEN = 301  # the training seed of the domains' policies
HERE = ("cartpole", "cartpole-continuous", "gridworld", "bandit")


def place(name: str, policies: Path, shipped: bool) -> tuple[Any, Any, dict[str, Any]]:
    """(domain or environment, policy, settings)."""
    if name in DOMAINS:
        domain = get_domain(name)
        recipe = recipe_of(domain)
        learnt = None
        if not shipped:
            learnt = reinforce(domain, episodes=recipe.episodes, learning_rate=recipe.learning_rate, seed=UNSEEN)
        return domain, learnt, {}
    from tools.how_good import OTHERS, TASKS, trained

    steps, gamma, truth = {**TASKS, **OTHERS}[name]
    return gym.make(name), trained(name, steps, policies, 1), {"gamma": gamma, "truth_episodes": truth}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--where", nargs="+", default=list(HERE))
    parser.add_argument("--methods", nargs="+", default=["/".join(m) for m in METHODS])
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES))
    parser.add_argument("--repeats", type=int, default=1000)
    parser.add_argument("--shipped", action="store_true", help="the domains' own policies")
    parser.add_argument("--policies", type=Path, default=Path("policies"))
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", category=UserWarning)
    torch.set_num_threads(1)
    arguments.policies.mkdir(exist_ok=True)
    results = []
    for name in arguments.where:
        where, policy, settings = place(name, arguments.policies, arguments.shipped)
        known: dict[str, float] = {}
        for method in arguments.methods:
            sampler, estimator = method.split("/")
            common = {"sampler": sampler, "estimators": (estimator,), **settings}
            widths = coverage_table(where, policy, episodes=arguments.sizes, repeats=40, seed=77, **common, **known)
            if widths[0].value_se > 0.0 and not known:
                known = {"value": widths[0].value}
                error = widths[0].value_se
            for row in widths:
                found = coverage_table(
                    where, policy, half_width=row.half_width, repeats=arguments.repeats, **common, **known
                )[0].to_json()
                found |= {"where": name, "method": method, "target": row.half_width, "fixed": row.episodes}
                found["value_se"] = error if known else found["value_se"]
                results.append(found)
                print(
                    f"{name} {method}, ± {row.half_width:.3g} ({row.episodes:.0f} episodes): coverage "
                    f"{found['coverage']:.3f} [{found['coverage_low']:.3f}, {found['coverage_high']:.3f}], "
                    f"stopped after {found['episodes']:.0f}, ± {found['half_width']:.3g}",
                    flush=True,
                )
        if arguments.json:
            arguments.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
