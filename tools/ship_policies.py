"""Make the policies that come with the package, and their provenance.

    python tools/ship_policies.py [DOMAIN …]

The value in a finite domain is exact. In the others it comes from so many rollouts that its relative squared error is at
most 2e-8.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

from evenroll.domains.catalogue import DOMAINS, get_domain
from evenroll.files.safe_files import write_atomically
from evenroll.policies import load_policy, policy_digest, save_policy
from evenroll.study.training import recipe_of, reinforce
from evenroll.study.true_value import value_by_rollouts

DATA = Path(__file__).parents[1] / "src" / "evenroll" / "domains" / "data"
SEED = 0
TARGET = 1.9e-8  # relative squared error of the value


def ship(name: str) -> None:
    domain = get_domain(name)
    recipe = recipe_of(domain)
    path = DATA / f"{name}.safetensors"
    save_policy(reinforce(domain, episodes=recipe.episodes, learning_rate=recipe.learning_rate, seed=SEED), path)
    policy = load_policy(path)
    if domain.exact is not None:
        known, method = domain.known_truth(policy), "dynamic programming"
    else:
        first = value_by_rollouts(domain, policy, 200_000, seed=1)
        episodes = math.ceil(first.variance / first.value**2 / TARGET)
        known = value_by_rollouts(domain, policy, episodes, seed=2)
        method = f"mean of {episodes} on-policy episodes, rounded up to whole blocks (seed 2)"
    assert known is not None
    record = {
        "command": f"evenroll train {name} --seed {SEED}",
        "seed": SEED,
        "episodes": recipe.episodes,
        "learning_rate": recipe.learning_rate,
        "digest": policy_digest(policy),
        "value": known.value,
        "value_se": known.value_se,
        "mean_length": known.mean_length,
        "variance": known.variance,
        "value_by": method,
    }
    write_atomically(DATA / f"{name}.json", (json.dumps(record, indent=1) + "\n").encode())
    print(name, record["value"], "±", record["value_se"], "T̄", record["mean_length"], flush=True)


if __name__ == "__main__":
    for which in sys.argv[1:] or DOMAINS:
        ship(which)
