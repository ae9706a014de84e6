"""What all results can do: be a number, be told to other programs and come back, and stand in a notebook."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping
from html import escape
from typing import Any, TypeVar

from evenroll.errors import DataError, SpecError
from evenroll.evaluation.noise import NoiseBudget
from evenroll.evaluation.noise_picture import svg

T = TypeVar("T")
NOT_TOLD = ("rollouts", "_looked", "_call")  # data, and what only a running program knows


class Presented:
    """A frozen dataclass with a `value`. Fields of NOT_TOLD stay behind when it is told, and when it is pickled."""

    value: float

    def __float__(self) -> float:
        return float(self.value)

    def to_json(self) -> dict[str, Any]:
        """All that was found, as plain numbers and words. What is not a finite number is None."""
        return {name: _plain(value) for name, value in _told(self).items()}

    def to_frame(self) -> Any:
        """One row of a pandas data frame. Parts of a part are named after both: `mean_low`, `quantities_length_value`."""
        try:
            import pandas  # type: ignore[import-untyped]
        except ImportError:
            raise SpecError("a data frame needs pandas: pip install pandas, or take to_json()") from None
        return pandas.DataFrame([_flat(self.to_json())])

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, **{name: None for name in NOT_TOLD if name in self.__dict__}}


def _told(result: Any) -> dict[str, Any]:
    return {f.name: getattr(result, f.name) for f in dataclasses.fields(result) if f.name not in NOT_TOLD}


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: _plain(part) for name, part in _told(value).items()}
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _flat(told: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    row: dict[str, Any] = {}
    for name, value in told.items():
        if isinstance(value, Mapping):
            row |= _flat(value, f"{prefix}{name}_")
        else:
            row[prefix + name] = "; ".join(value) if isinstance(value, list | tuple) else value
    return row


def of_plain(kind: type[T], told: Mapping[str, Any] | str, **parts: Callable[[Any], Any]) -> T:
    """A result from what `to_json` has told of it. `parts` make the fields that are more than a number or a word."""
    try:
        found = json.loads(told) if isinstance(told, str) else dict(told)
        known = {f.name for f in dataclasses.fields(kind) if f.name not in NOT_TOLD}  # type: ignore[arg-type]
        fields = {name: value for name, value in found.items() if name in known}
        return kind(**{n: parts[n](v) if n in parts and v is not None else v for n, v in fields.items()})
    except (TypeError, ValueError, AttributeError) as error:
        raise DataError(f"this is not what to_json of {kind.__name__} gives: {error}") from None


def page_piece(headline: str, words: str, noise: NoiseBudget | None) -> str:
    """A piece of HTML in the colours of the page that it stands in."""
    strip = "" if noise is None else svg(noise, 560)
    return f"<div><p><b>{escape(headline)}</b></p><p>{escape(words)}</p>{strip}</div>"
