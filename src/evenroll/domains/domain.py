"""A domain: an environment with what an experiment needs (policy, γ, horizon, true value, settings of the paper)."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

import numpy as np

from evenroll.domains.environment import Environment
from evenroll.engine.random import stream
from evenroll.errors import PolicyError, SpecError
from evenroll.policies import Policy, load_policy, policy_digest


@dataclass(frozen=True)
class Truth:
    """What is known of a policy's value: v(π_e), its standard error (0 if exact), T̄ and Var[return]."""

    value: float
    value_se: float
    mean_length: float
    variance: float


@dataclass(frozen=True)
class Domain:
    """name, γ, horizon; `environment(rng)` builds the dynamics (rng only where they differ from trial to trial)."""

    name: str
    gamma: float
    horizon: int
    environment: Callable[[np.random.RandomState | None], Environment]
    exact: Callable[[Domain, Policy, Environment], Truth] | None
    paper: Mapping[str, Mapping[str, float]]  # hyper-parameters: of the paper, tables 1 and 2; roa: its authors' runs
    shipped: str  # name of the policy file that comes with the package
    redrawn: bool = False  # the environment differs from trial to trial
    parameters: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        values = ",".join(f"{k}={v:g}" for k, v in self.parameters.items())
        return self.name + (":" + values if values else "")

    def trial_environment(self, seed: tuple[int, ...]) -> Environment:
        """The environment of one trial."""
        if not self.redrawn:
            return self.environment(None)
        return self.environment(np.random.RandomState(int(stream(*seed, 2)[0] >> np.uint64(32))))

    def policy(self) -> Policy:
        """The evaluation policy that comes with the package."""
        policy = load_policy(str(resources.files("evenroll.domains") / "data" / f"{self.shipped}.safetensors"))
        try:
            self.environment(None).check(policy)
        except PolicyError:
            raise SpecError(f"no policy is shipped for {self}; make one with `evenroll train {self}`") from None
        return policy

    def known_truth(self, policy: Policy, seed: tuple[int, ...] = ()) -> Truth | None:
        """The exact value where dynamic programming gives it, the stored one for the shipped policy, else None."""
        if self.redrawn and not seed:
            return Truth(0.5 * self.parameters.get("mean_factor", 1.0), 0.0, 1.0, math.nan)  # mean over all bandits
        if self.exact is not None:
            return self.exact(self, policy, self.trial_environment(seed))
        stored = provenance(self.shipped)
        if stored.get("digest") == policy_digest(policy):
            return Truth(*(stored[key] for key in ("value", "value_se", "mean_length", "variance")))
        return None


@functools.cache
def provenance(name: str) -> dict[str, Any]:
    """Where a shipped policy comes from: command, seed, value, T̄."""
    path = resources.files("evenroll.domains") / "data" / f"{name}.json"
    return dict(json.loads(path.read_text())) if path.is_file() else {}
