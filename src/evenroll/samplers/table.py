"""Samplers by name, and a sampler from its specification: `ros:alpha=10`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from evenroll.errors import SpecError
from evenroll.samplers.auto import Auto
from evenroll.samplers.base import Sampler
from evenroll.samplers.bpg import BPG
from evenroll.samplers.odi import ODI
from evenroll.samplers.off_policy import OffPolicy
from evenroll.samplers.on_policy import OnPolicy
from evenroll.samplers.props import PROPS
from evenroll.samplers.revar import ReVar
from evenroll.samplers.roa import ROA
from evenroll.samplers.ros import ROS
from evenroll.samplers.ros_episode import ROSEpisode
from evenroll.samplers.ros_head import ROSHead
from evenroll.text.specs import closest, parse_parameters

SAMPLERS: dict[str, type[Sampler]] = {
    kind.name: kind for kind in (OnPolicy, ROS, ROSEpisode, ROSHead, ROA, PROPS, ReVar, ODI, BPG, OffPolicy, Auto)
}
DEFAULTS: dict[str, dict[str, float]] = {"off": {"delta": 0.1}}  # where no domain says otherwise


def get_sampler(
    spec: str | Sampler, settings: Mapping[str, Mapping[str, float]] | None = None, initial: bool = False
) -> Sampler:
    """A sampler from its specification, or the object itself.

    settings  hyper-parameters by sampler's name for those that the specification leaves out: a domain's `paper`.
    initial   the sampler starts from initial data, for which the paper has settings of its own, under `init+NAME`
    """
    if isinstance(spec, Sampler):
        return spec
    name, _, text = spec.partition(":")
    if name not in SAMPLERS:
        raise SpecError(f"unknown sampler {name!r}{closest(name, SAMPLERS)}; known: {', '.join(SAMPLERS)}")
    kind = SAMPLERS[name]
    given = parse_parameters(spec, text)
    defaults: dict[str, float] = dict(DEFAULTS.get(name, {}))
    if settings is not None:
        defaults |= dict(settings.get(f"init+{name}" if initial else name) or settings.get(name) or {})
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
