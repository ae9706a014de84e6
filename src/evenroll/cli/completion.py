"""What the shell completes: domains, environments, samplers, estimators, methods.

The names of samplers and estimators stand here again, because importing their tables takes a second, and somebody who
presses the tab key does not want to wait; a test compares them with the tables.
"""

from __future__ import annotations

from collections.abc import Iterable

from evenroll.domains.registration import DOMAINS

SAMPLERS = ("auto", "os", "ros", "ros-episode", "ros-head", "roa", "props", "revar", "odi", "bpg", "off")
ESTIMATORS = (
    "mc", "score", "ois", "wis", "wis+mc", "pdis", "ris", "wris", "fqe", "fqe-net", "fqe-net-small", "dr", "wdr",
)  # fmt: skip
INITIAL = "init+"


def _beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def domains(incomplete: str) -> list[str]:
    return _beginning(incomplete, DOMAINS)


def environments(incomplete: str) -> list[str]:
    import gymnasium

    return _beginning(incomplete, gymnasium.registry)


def domains_and_environments(incomplete: str) -> list[str]:
    return domains(incomplete) + environments(incomplete)


def samplers(incomplete: str) -> list[str]:
    return _beginning(incomplete, SAMPLERS)


def estimators(incomplete: str) -> list[str]:
    return _beginning(incomplete, ESTIMATORS)


def methods(incomplete: str) -> list[str]:
    """[init+]SAMPLER, and behind a slash the estimators."""
    sampler, slash, estimator = incomplete.partition("/")
    if slash:
        return [f"{sampler}/{name}" for name in estimators(estimator)]
    return _beginning(incomplete, [*SAMPLERS, *(INITIAL + name for name in SAMPLERS)])
