"""The built-in domains by name.

`get_domain("gridworld")`, or with parameters after a colon: `gridworld:mean_factor=2,noise=1`. The parameters are those of
the function `domain` in the domain's file, and a domain's file is imported when somebody asks for the domain.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import math
from collections.abc import Callable
from typing import Any

from evenroll.domains.domain import Domain
from evenroll.domains.registration import DOMAINS
from evenroll.errors import SpecError
from evenroll.text.specs import closest, parse_parameters

__all__ = ["DOMAINS", "get_domain", "parameters_of"]


def get_domain(spec: str | Domain) -> Domain:
    """A built-in domain by name, with parameters after a colon, or the given domain itself."""
    if isinstance(spec, Domain):
        return spec
    name, _, text = spec.partition(":")
    if name not in DOMAINS:
        raise SpecError(f"unknown domain {name!r}{closest(name, DOMAINS)}; known: {', '.join(DOMAINS)}")
    build = importlib.import_module(f"evenroll.domains.{DOMAINS[name].module}").domain
    values = parameters_of(build, name, text)
    return dataclasses.replace(build(**values), parameters=values)


def parameters_of(build: Callable[..., Any], name: str, text: str) -> dict[str, float]:
    """The numbers that `key=value,…` gives to the parameters of `build`, the function that makes the domain `name`."""
    known = sorted(inspect.signature(build).parameters)
    values: dict[str, float] = {}
    for key, value in parse_parameters(f"{name}:{text}", text).items():
        if key not in known:
            raise SpecError(f"{name}: unknown parameter {key!r}{closest(key, known)}; known: {', '.join(known) or 'none'}")
        values[key] = 1.0 if value in ("true", "yes") else 0.0 if value in ("false", "no") else _number(name, key, value)
    return values


def _number(name: str, key: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise SpecError(f"{name}: {key} must be a number, not {text!r}")
    return value
