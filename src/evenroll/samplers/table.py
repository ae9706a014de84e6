"""Samplers by name, and a sampler from its specification: `ros:alpha=10`, or `module:Class:strength=0.5` for one's own."""

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
from evenroll.text.names import is_named, named, split_spec
from evenroll.text.specs import check_name, closest, parse_parameters

SAMPLERS: dict[str, type[Sampler]] = {
    kind.name: kind for kind in (OnPolicy, ROS, ROSEpisode, ROSHead, ROA, PROPS, ReVar, ODI, BPG, OffPolicy, Auto)
}
DEFAULTS: dict[str, dict[str, float]] = {"off": {"delta": 0.1}}  # hyper-parameters where no domain says otherwise

SamplerLike = str | Sampler | type[Sampler]  # what `get_sampler` accepts
Settings = Mapping[str, Mapping[str, float]]  # hyper-parameters by the sampler's name


def get_sampler(spec: SamplerLike, settings: Settings | None = None, initial: bool = False) -> Sampler:
    """A sampler from its specification or from its class, or the object itself.

    settings  hyper-parameters, by the sampler's name, that the specification leaves out: a domain's `paper`
    initial   the sampler starts from initial data, for which the paper has separate settings, under `init+NAME`
    """
    sampler: Any = spec
    given: dict[str, str] = {}
    if isinstance(spec, str):
        name, parameters = split_spec(spec, SAMPLERS)
        if name not in SAMPLERS and not is_named(name):
            names = f"{', '.join(SAMPLERS)}, or module:Class for one of your own"
            raise SpecError(f"unknown sampler {name!r}{closest(name, SAMPLERS)}; known: {names}")
        sampler = SAMPLERS[name] if name in SAMPLERS else named(name)
        given = parse_parameters(spec, parameters)
    if isinstance(sampler, type) and issubclass(sampler, Sampler):
        sampler = _made(sampler, given, settings or {}, initial)
    elif not isinstance(sampler, Sampler):
        raise SpecError(f"{spec!r} is not a sampler: give a name, an object of a subclass of evenroll.Sampler, or its class")
    elif given:
        raise SpecError(f"{spec}: {type(sampler).__name__} has its parameters already; name its class to give others")
    check_name("sampler", sampler.name, SAMPLERS.get(sampler.name) not in (None, type(sampler)))
    return sampler


def specification(sampler: Sampler) -> str:
    """The text that gives this sampler again: its name and parameters, after `module:Class` if it is not one of ours."""
    kind = type(sampler)
    if SAMPLERS.get(sampler.name) is kind:
        return str(sampler)
    parameters = str(sampler).removeprefix(sampler.name)
    return f"{kind.__module__}:{kind.__qualname__}{parameters}"


def _made(kind: type[Sampler], given: dict[str, str], settings: Settings, initial: bool) -> Sampler:
    """A sampler of this class, from the given parameters and, for the rest, from the settings or the class's defaults."""
    name = kind.name
    defaults: dict[str, float] = dict(DEFAULTS.get(name, {}))
    defaults |= dict(settings.get(f"init+{name}" if initial else name) or settings.get(name) or {})
    fields = {f.name: f for f in dataclasses.fields(kind) if f.init}
    for key in given:
        if key not in fields:
            names = ", ".join(fields) or "none"
            raise SpecError(f"{name}: unknown parameter {key!r}{closest(key, fields)}; known: {names}")
    values: dict[str, Any] = {}
    for key, item in fields.items():
        whole = item.type in ("int", int)  # the type is a string where the file has `from __future__ import annotations`
        if key in given:
            values[key] = _convert(name, key, given[key], whole)
        elif key in defaults:
            values[key] = int(defaults[key]) if whole else float(defaults[key])
        elif item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING:
            raise SpecError(f"{name}: {key} must be given, for example {name}:{key}=1")
    return kind(**values)


def _convert(name: str, key: str, text: str, whole: bool) -> int | float:
    try:
        return int(text) if whole else float(text)
    except ValueError:
        what = "a whole number" if whole else "a number"
        raise SpecError(f"{name}: {key} must be {what}, not {text!r}") from None
