"""A method is how to collect and how to estimate. It is written  [init+]SAMPLER[:key=value,…][/ESTIMATOR]

`init+` means "starts from initial data". Parameters left out take the domain's value in the paper. This is the only module
that takes such a text apart or puts it together: `MethodSpec` is the text in its parts, `Method` the objects it names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evenroll.domains.domain import Domain
from evenroll.errors import SpecError
from evenroll.estimators.table import ESTIMATORS, Estimator, EstimatorLike, get_estimator
from evenroll.samplers.base import Sampler
from evenroll.samplers.table import SAMPLERS, SamplerLike, get_sampler
from evenroll.text.names import split_spec

INITIAL = "init+"
MADE_FOR = {"bpg": "ois", "odi": "pdis", "revar": "fqe"}  # samplers that serve one estimator


@dataclass(frozen=True)
class MethodSpec:
    """A method as it is written, in its parts. Nothing says that the sampler or the estimator exists.

    sampler    SAMPLER[:key=value,…], as written
    estimator  its name, or "" where it is left out
    initial    starts from initial data
    """

    sampler: str
    estimator: str = ""
    initial: bool = False

    @classmethod
    def parse(cls, text: str) -> MethodSpec:
        collect, slash, estimator = text.partition("/")
        if slash and not estimator:
            raise SpecError(f"{text!r}: an estimator must follow the slash; known: {', '.join(ESTIMATORS)}")
        return cls(collect.removeprefix(INITIAL), estimator, collect.startswith(INITIAL))

    @property
    def collect(self) -> str:
        """How it collects: everything but the estimator."""
        return (INITIAL if self.initial else "") + self.sampler

    @property
    def name(self) -> str:
        """The sampler's name without its parameters."""
        return split_spec(self.sampler, SAMPLERS)[0]

    @property
    def parameters(self) -> str:
        """The sampler's parameters as written, or ""."""
        return split_spec(self.sampler, SAMPLERS)[1]

    def __str__(self) -> str:
        return self.collect + (f"/{self.estimator}" if self.estimator else "")


@dataclass(frozen=True)
class Method:
    """How to collect and how to estimate.

    initial  starts from initial data
    """

    sampler: Sampler
    estimator: Estimator
    initial: bool = False

    @property
    def spec(self) -> MethodSpec:
        """The method as it is shown: of something written outside this package its name, not its module."""
        return MethodSpec(str(self.sampler), self.estimator.name, self.initial)

    def __str__(self) -> str:
        return str(self.spec)


MethodLike = str | Method | Sampler | type[Sampler] | tuple[SamplerLike, EstimatorLike]  # what `get_method` accepts


def get_method(spec: MethodLike, domain: Domain) -> Method:
    """A method from its specification, from a sampler or from a pair (sampler, estimator); or the object itself.

    The sampler of a pair may be written too, with `init+` in front of it. An estimator that is left out is mc, or the one
    that the sampler is MADE_FOR.
    """
    if isinstance(spec, Method):
        return _fits(spec)
    sampler, estimator = _pair(spec)
    initial = False
    if isinstance(sampler, str):
        written = MethodSpec.parse(sampler)
        if written.estimator and estimator is not None:
            raise SpecError(f"{spec!r} names two estimators")
        sampler, estimator, initial = written.sampler, estimator or written.estimator, written.initial
    found = get_sampler(sampler, domain.paper, initial)
    return _fits(Method(found, get_estimator(estimator or MADE_FOR.get(found.name, "mc")), initial))


def _pair(spec: Any) -> tuple[SamplerLike, EstimatorLike | None]:
    if not isinstance(spec, tuple):
        return spec, None
    if len(spec) != 2:
        raise SpecError(f"a method is a pair (sampler, estimator), not {len(spec)} things: {spec!r:.80}")
    return spec[0], spec[1]


def _fits(method: Method) -> Method:
    if method.estimator.name == "wis+mc" and not method.initial:
        written = MethodSpec(method.spec.sampler, "wis+mc", initial=True)
        raise SpecError(f"{str(method)!r}: wis+mc weighs initial data against new data; write {written}")
    return method
