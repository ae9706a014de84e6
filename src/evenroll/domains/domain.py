"""A domain: an environment with what an experiment needs (γ, horizon, true value, policy, settings of the paper)."""

from __future__ import annotations

import functools
import json
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
class Recipe:
    """How `evenroll train` makes an evaluation policy: the episodes before the snapshot, and Adam's step size."""

    episodes: int
    learning_rate: float


@dataclass(frozen=True)
class Domain:
    """An environment, its discount γ and its horizon. Everything after the first four fields may be left out.

    name          what the domain is called in tables, figures and messages
    gamma         γ, the discount of rewards, from 0 to 1
    horizon       the number of steps after which a trajectory is cut
    environment   makes the environment; the random numbers are for a redrawn domain only, and None asks for the usual one
    exact         the exact value of a policy in an environment of this domain, where it can be computed
    paper         hyper-parameters by sampler: those of the paper's tables 1 and 2, and roa's from its authors' runs
    shipped       the name of the policy file that comes with the package
    recipe        how `evenroll train` makes a policy; without one it takes a default (`study.training`)
    gymnasium_id  the id under which Gymnasium knows the domain
    redrawn       the environment differs from trial to trial
    average       what is known of the value of every policy over all the environments of a redrawn domain
    greedy        the best action of each state, where the environment tells it; ε-greedy policies favour it
    parameters    the parameters that the domain was made with, for its name
    """

    name: str
    gamma: float
    horizon: int
    environment: Callable[[np.random.RandomState | None], Environment]
    exact: Callable[[Domain, Policy, Environment], Truth] | None = None
    paper: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    shipped: str | None = None
    recipe: Recipe | None = None
    gymnasium_id: str | None = None
    redrawn: bool = False
    average: Truth | None = None
    greedy: Callable[[Environment], np.ndarray] | None = None
    parameters: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0.0 <= self.gamma <= 1.0:
            raise SpecError(f"{self.name}: gamma must lie between 0 and 1, not {self.gamma}")
        if not isinstance(self.horizon, int | np.integer) or self.horizon < 1:
            raise SpecError(f"{self.name}: horizon must be a whole number of at least 1 step, not {self.horizon}")

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
        if self.shipped is None:
            raise SpecError(f"no policy comes with {self}: give a policy, or make one with `evenroll train`")
        policy = load_policy(str(resources.files("evenroll.domains") / "data" / f"{self.shipped}.safetensors"))
        try:
            self.environment(None).check(policy)
        except PolicyError:
            raise SpecError(
                f"no policy is shipped for {self}: give a policy, or make one with `evenroll train {self}`"
            ) from None
        return policy

    def known_truth(self, policy: Policy, seed: tuple[int, ...] = ()) -> Truth | None:
        """The exact value where it can be computed, the stored one for the shipped policy, else None.

        A redrawn domain has the environment of the trial with this seed. Without a seed its truth is over all of them.
        """
        if self.redrawn and not seed:
            return self.average
        if self.exact is not None:
            env = self.trial_environment(seed)
            env.check(policy)
            return self.exact(self, policy, env)
        stored = {} if self.shipped is None else provenance(self.shipped)
        if stored.get("digest") == policy_digest(policy):
            return Truth(*(stored[key] for key in ("value", "value_se", "mean_length", "variance")))
        return None


@functools.cache
def provenance(name: str) -> dict[str, Any]:
    """Where a shipped policy comes from: command, seed, value, T̄."""
    path = resources.files("evenroll.domains") / "data" / f"{name}.json"
    return dict(json.loads(path.read_text())) if path.is_file() else {}
