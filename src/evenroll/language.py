"""One mini-language for the command line and Python:  [init+]SAMPLER[:key=value,…][/ESTIMATOR]

`init+` means "starts from initial data". Parameters left out take the domain's value in the paper.
This module holds the only tables from names to objects.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from evenroll.domains import Domain
from evenroll.errors import SpecError
from evenroll.estimators import ESTIMATORS, Estimator
from evenroll.samplers import BPG, ODI, PROPS, ROA, ROS, Auto, OffPolicy, OnPolicy, ReVar, ROSEpisode, ROSHead, Sampler
from evenroll.specs import closest, parse_parameters

SAMPLERS: dict[str, type[Sampler]] = {
    kind.name: kind for kind in (OnPolicy, ROS, ROSEpisode, ROSHead, ROA, PROPS, ReVar, ODI, BPG, OffPolicy, Auto)
}
DEFAULTS: dict[str, dict[str, float]] = {"off": {"delta": 0.1}}  # where no domain says otherwise
MADE_FOR = {"bpg": "ois", "odi": "pdis", "revar": "fqe"}  # samplers that serve one estimator


@dataclass(frozen=True)
class Method:
    """How to collect and how to estimate."""

    sampler: Sampler
    estimator: Estimator
    initial: bool = False  # starts from initial data

    def __str__(self) -> str:
        return f"{'init+' if self.initial else ''}{self.sampler}/{self.estimator.name}"


def get_sampler(spec: str | Sampler, domain: Domain | None = None, initial: bool = False) -> Sampler:
    """A sampler from its specification, or the object itself."""
    if isinstance(spec, Sampler):
        return spec
    name, _, text = spec.partition(":")
    if name not in SAMPLERS:
        raise SpecError(f"unknown sampler {name!r}{closest(name, SAMPLERS)}; known: {', '.join(SAMPLERS)}")
    kind = SAMPLERS[name]
    given = parse_parameters(spec, text)
    defaults: dict[str, float] = dict(DEFAULTS.get(name, {}))
    if domain is not None:
        defaults |= dict(domain.paper.get(f"init+{name}" if initial else name) or domain.paper.get(name) or {})
    fields = {f.name: f for f in dataclasses.fields(kind)}
    for key in given:
        if key not in fields:
            names = ", ".join(fields) or "none"
            raise SpecError(f"{name}: unknown parameter {key!r}{closest(key, fields)}; known: {names}")
    values: dict[str, Any] = {}
    for key, item in fields.items():
        if key in given:
            values[key] = _convert(name, key, given[key], str(item.type))
        elif key in defaults:
            values[key] = int(defaults[key]) if item.type == "int" else float(defaults[key])
        elif item.default is dataclasses.MISSING:
            raise SpecError(f"{name}: {key} must be given, for example {name}:{key}=1")
    return kind(**values)


def _convert(name: str, key: str, text: str, kind: str) -> Any:
    try:
        return int(text) if kind == "int" else float(text)
    except ValueError:
        what = "a whole number" if kind == "int" else "a number"
        raise SpecError(f"{name}: {key} must be {what}, not {text!r}") from None


def get_estimator(spec: str | Estimator) -> Estimator:
    """An estimator by name, or the object itself."""
    if isinstance(spec, Estimator):
        return spec
    if spec not in ESTIMATORS:
        raise SpecError(f"unknown estimator {spec!r}{closest(spec, ESTIMATORS)}; known: {', '.join(ESTIMATORS)}")
    return ESTIMATORS[spec]


def get_method(spec: str | Method, domain: Domain) -> Method:
    """A method from its specification, or the object itself. The estimator defaults to mc, or MADE_FOR's."""
    if isinstance(spec, Method):
        return spec
    text, slash, estimator = spec.partition("/")
    if slash and not estimator:
        raise SpecError(f"{spec!r}: an estimator must follow the slash; known: {', '.join(ESTIMATORS)}")
    initial = text.startswith("init+")
    sampler = get_sampler(text.removeprefix("init+"), domain, initial)
    method = Method(sampler, get_estimator(estimator or MADE_FOR.get(sampler.name, "mc")), initial)
    if method.estimator.name == "wis+mc" and not initial:
        raise SpecError(f"{spec!r}: wis+mc weighs initial data against new data; write init+{text}/wis+mc")
    return method
