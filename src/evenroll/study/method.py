"""A method is how to collect and how to estimate:  [init+]SAMPLER[:key=value,…][/ESTIMATOR]

`init+` means "starts from initial data". Parameters left out take the domain's value in the paper.
"""

from __future__ import annotations

from dataclasses import dataclass

from evenroll.domains.domain import Domain
from evenroll.errors import SpecError
from evenroll.estimators import ESTIMATORS, Estimator, get_estimator
from evenroll.samplers import Sampler, get_sampler

MADE_FOR = {"bpg": "ois", "odi": "pdis", "revar": "fqe"}  # samplers that serve one estimator


@dataclass(frozen=True)
class Method:
    """How to collect and how to estimate."""

    sampler: Sampler
    estimator: Estimator
    initial: bool = False  # starts from initial data

    def __str__(self) -> str:
        return f"{'init+' if self.initial else ''}{self.sampler}/{self.estimator.name}"


def get_method(spec: str | Method, domain: Domain) -> Method:
    """A method from its specification, or the object itself. The estimator defaults to mc, or MADE_FOR's."""
    if isinstance(spec, Method):
        return spec
    text, slash, estimator = spec.partition("/")
    if slash and not estimator:
        raise SpecError(f"{spec!r}: an estimator must follow the slash; known: {', '.join(ESTIMATORS)}")
    initial = text.startswith("init+")
    sampler = get_sampler(text.removeprefix("init+"), domain.paper, initial)
    method = Method(sampler, get_estimator(estimator or MADE_FOR.get(sampler.name, "mc")), initial)
    if method.estimator.name == "wis+mc" and not initial:
        raise SpecError(f"{spec!r}: wis+mc weighs initial data against new data; write init+{text}/wis+mc")
    return method
