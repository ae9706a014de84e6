"""How well a result tells what the rest of its noise is: shares of actions, starts and environment against known ones.

    python tools/noise_shares.py --repeats 100 --json noise.json

The known share of the actions is that of Σ γᵗ Â with an Â from very many episodes (tables: a model of the domain; it is
exact in the limit). Domains that leave nothing to chance have no noise of the environment: what is missing to 1 there is
what the features do not describe. Each row: the known share, the mean and the standard deviation of the estimated one over
the repeats, the mean of the standard error that comes with it, and how often it is too rough to be told.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from evenroll.collection.rollouts import Rollouts
from evenroll.collection.trial import Driver
from evenroll.domains.catalogue import get_domain
from evenroll.domains.domain import Domain
from evenroll.engine.blas import single_threaded_blas
from evenroll.estimators.score_regression import action_parts
from evenroll.estimators.variance_components import variance_components
from evenroll.evaluation.noise import TOO_ROUGH
from evenroll.samplers.table import get_sampler

HERE = ("bandit", "gridworld", "gridworld:noise=2", "cartpole", "cartpole-continuous")


def run(domain: Domain, sampler: str, episodes: int, seed: int) -> Rollouts:
    driver = Driver(
        domain.policy(), get_sampler(sampler, domain.paper), (seed,), gamma=domain.gamma, horizon=domain.horizon,
        record_steps=True,
    )  # fmt: skip
    return driver.run(domain.environment(None), episodes=episodes)


def known_share(domain: Domain, episodes: int) -> float:
    """The squared correlation of returns and C, with an Â from the other half of very many episodes."""
    data = run(domain, "os", episodes, 999)
    C = action_parts(data, domain.policy(), folds=2)[0].apart
    return max(float(np.corrcoef(C[:, way], data.returns)[0, 1] ** 2) for way in range(C.shape[1]) if np.ptp(C[:, way]) > 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--where", nargs="+", default=list(HERE))
    parser.add_argument("--samplers", nargs="+", default=["os", "auto"])
    parser.add_argument("--episodes", nargs="+", type=int, default=[32, 64, 256])
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--known", type=int, default=20_000, help="episodes behind the known share")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    results = []
    with single_threaded_blas():
        for name in arguments.where:
            domain = get_domain(name)
            known = known_share(domain, arguments.known)
            for sampler in arguments.samplers:
                for n in arguments.episodes:
                    parts = [
                        variance_components(run(domain, sampler, n, seed), domain.policy()).actions
                        for seed in range(arguments.repeats)
                    ]
                    shares, errors = np.array([(part.share, part.error) for part in parts if part is not None]).T
                    found = {
                        "where": name, "sampler": sampler, "episodes": n, "known": known, "mean": float(shares.mean()),
                        "spread": float(shares.std(ddof=1)), "error": float(np.median(errors)),
                        "rough": float(np.mean(errors > TOO_ROUGH)),
                    }  # fmt: skip
                    results.append(found)
                    print(
                        f"{name} {sampler}, {n} episodes: known {known:.3f}, found {found['mean']:.3f} "
                        f"± {found['spread']:.3f} (says ± {found['error']:.3f}), too rough {found['rough']:.0%}",
                        flush=True,
                    )
            if arguments.json:
                arguments.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
