"""The distributions that actions are drawn from, in NumPy: everything here works on many steps at once.

A distribution is described by the outputs of a policy, a row of numbers for every step:

    Categorical  the logits of a discrete action, or of several actions (factors) that are independent of each other;
    Gaussian     two numbers for every dimension of a real action, which link functions turn into its mean and its scale.

The samplers use the compiled counterparts in `heads.py`, which see one step at a time. A test compares the two.
Outputs keep their precision: what was recorded in float32 is computed in float32.
"""

from __future__ import annotations

import functools
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from evenroll.engine.scalars import LEAST_SOFTPLUS
from evenroll.errors import PolicyError
from evenroll.policies.heads import LOG_SQRT_2PI

SAME = 1e-3  # log-probabilities, means and log scales that differ by less, relative to the largest, count as the same


class Distribution(ABC):
    """What every distribution of actions can tell. Outputs are [N, size], actions [N, action_dim]."""

    @property
    @abstractmethod
    def size(self) -> int:
        """How many outputs describe the distribution."""

    @property
    @abstractmethod
    def action_dim(self) -> int:
        """How many numbers an action has."""

    @property
    @abstractmethod
    def score_kinds(self) -> int:
        """How many scores of an action are free to vary. A discrete action's sum to 0, so one follows from the others."""

    @property
    @abstractmethod
    def score_names(self) -> tuple[str, ...]:
        """What each score counts, in the order of `scores`."""

    @abstractmethod
    def log_probs(self, outputs: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """log π(a|s), [N]."""

    @abstractmethod
    def scores(self, outputs: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """How far each action deviates from its distribution, [N, scores] in float64: without units, of mean 0 under π."""

    @abstractmethod
    def variances(self, outputs: np.ndarray) -> np.ndarray:
        """The variance of each score under π, [N, scores]."""

    @abstractmethod
    def mode(self, outputs: np.ndarray) -> np.ndarray:
        """The likeliest action, [N, action_dim]."""

    @abstractmethod
    def normalised(self, outputs: np.ndarray) -> np.ndarray:
        """The outputs in a form that is the same for equal distributions, [N, size]."""

    def same(self, a: np.ndarray, b: np.ndarray, within: float = SAME) -> bool:
        """Whether two sets of outputs [N, size] describe the same distributions, up to rounding."""
        a, b = self.normalised(a), self.normalised(b)
        return bool(np.abs(a - b).max(initial=0.0) <= within * (1.0 + np.abs(b).max(initial=0.0)))


# ---- discrete actions ------------------------------------------------------------------------------------------


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities along the last axis. The largest logit is subtracted first, so that nothing overflows."""
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Logarithms of the probabilities along the last axis."""
    with np.errstate(invalid="ignore"):  # a network that gives nan or inf is reported where it acts
        shifted = logits - logits.max(axis=-1, keepdims=True)
        return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))


@dataclass(frozen=True)
class Categorical(Distribution):
    """One discrete action, or several independent ones. The outputs are their logits, one factor after the other.

    choices  how many values each factor can take

    The scores are 1{a} − π, one for every value of every factor; their variances are π (1 − π).
    """

    choices: tuple[int, ...]

    @property
    def size(self) -> int:
        return sum(self.choices)

    @property
    def action_dim(self) -> int:
        return len(self.choices)

    @property
    def score_kinds(self) -> int:
        return sum(self.choices) - len(self.choices)

    @property
    def score_names(self) -> tuple[str, ...]:
        if len(self.choices) == 1:
            return tuple(f"action {a}" for a in range(self.choices[0]))
        return tuple(f"action{factor} {a}" for factor, n in enumerate(self.choices) for a in range(n))

    @functools.cached_property
    def _factors(self) -> list[slice]:
        """Where the logits of each factor stand."""
        return [slice(a, b) for a, b in itertools.pairwise(np.cumsum((0, *self.choices)).tolist())]

    def probabilities(self, outputs: np.ndarray) -> np.ndarray:
        """π of every value of every factor, [N, size]."""
        return np.concatenate([softmax(outputs[:, part]) for part in self._factors], axis=1)

    def normalised(self, outputs: np.ndarray) -> np.ndarray:
        """Logarithms of the probabilities."""
        return np.concatenate([log_softmax(outputs[:, part]) for part in self._factors], axis=1)

    def log_probs(self, outputs: np.ndarray, actions: np.ndarray) -> np.ndarray:
        log_p, rows, total = self.normalised(outputs), np.arange(len(actions)), np.zeros(len(actions))
        for factor, part in enumerate(self._factors):
            total += log_p[rows, part.start + actions[:, factor].astype(np.int64)]
        return total

    def scores(self, outputs: np.ndarray, actions: np.ndarray) -> np.ndarray:
        scores, rows = np.asarray(-self.probabilities(outputs), dtype=np.float64), np.arange(len(actions))
        for factor, part in enumerate(self._factors):
            scores[rows, part.start + actions[:, factor].astype(np.int64)] += 1.0
        return scores

    def variances(self, outputs: np.ndarray) -> np.ndarray:
        p = self.probabilities(outputs)
        return np.asarray(p * (1.0 - p))

    def mode(self, outputs: np.ndarray) -> np.ndarray:
        return np.stack([outputs[:, part].argmax(axis=1) for part in self._factors], axis=1)


# ---- real actions ----------------------------------------------------------------------------------------------


class Link(NamedTuple):
    """A smooth function that turns an output into a mean or a scale.

    of     the mean or scale of an output
    slope  the derivative with respect to the output, as a function of the mean or scale itself
    """

    of: Callable[[np.ndarray], np.ndarray]
    slope: Callable[[np.ndarray], np.ndarray]


# The order within each table is the number that compiled code knows a link by: `Sizes.mean_link`, `Sizes.scale_link`.
MEAN_LINKS = {
    "tanh": Link(np.tanh, lambda mean: 1.0 - mean**2),
    "identity": Link(lambda x: x, np.ones_like),
}
SCALE_LINKS = {
    "softplus": Link(lambda x: np.logaddexp(0.0, x), lambda scale: -np.expm1(-scale)),
    "exp": Link(np.exp, lambda scale: scale),
}


def normal_log_density(z: np.ndarray, log_scale: np.ndarray) -> np.ndarray:
    """The logarithm of a normal distribution's density at a, where z = (a − mean)/scale."""
    return np.asarray(-0.5 * z**2 - log_scale - LOG_SQRT_2PI)


@dataclass(frozen=True)
class Gaussian(Distribution):
    """Real actions with independent dimensions. The outputs are mean₀, scale₀, mean₁, scale₁ …, before their links.

    dim    how many numbers an action has
    mean   the link of the means: tanh, or identity
    scale  the link of the scales: softplus, or exp

    With the default links (identity and exp) the outputs are means and logarithms of scales, which is the normalised form.
    The scores are z = (a − mean)/scale of all dimensions, then (z² − 1)/√2 of all dimensions; their variances are 1.
    """

    dim: int
    mean: str = "identity"
    scale: str = "exp"

    def __post_init__(self) -> None:
        if self.mean not in MEAN_LINKS or self.scale not in SCALE_LINKS:
            raise PolicyError(f"there are no links {self.mean!r} of a mean and {self.scale!r} of a scale")

    @property
    def size(self) -> int:
        return 2 * self.dim

    @property
    def action_dim(self) -> int:
        return self.dim

    @property
    def score_kinds(self) -> int:
        return 2 * self.dim

    @property
    def score_names(self) -> tuple[str, ...]:
        return tuple(f"action{i} {deviation}" for deviation in ("higher", "wider") for i in range(self.dim))

    def means(self, outputs: np.ndarray) -> np.ndarray:
        """The mean of each dimension, [N, dim]."""
        return MEAN_LINKS[self.mean].of(outputs[:, 0::2])

    def scales(self, outputs: np.ndarray) -> np.ndarray:
        """The standard deviation of each dimension, [N, dim]. A softplus has the floor of the compiled one."""
        scales = SCALE_LINKS[self.scale].of(outputs[:, 1::2])
        return np.asarray(np.maximum(scales, LEAST_SOFTPLUS)) if self.scale == "softplus" else scales

    def log_scales(self, outputs: np.ndarray) -> np.ndarray:
        """The logarithms of the scales, [N, dim]."""
        return outputs[:, 1::2] if self.scale == "exp" else np.asarray(np.log(self.scales(outputs)))

    def standardised(self, outputs: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """z = (a − mean)/scale of each dimension, [N, dim]."""
        return np.asarray((actions - self.means(outputs)) / self.scales(outputs))

    def normalised(self, outputs: np.ndarray) -> np.ndarray:
        """The mean and the logarithm of the scale of each dimension in turn: the outputs of `Gaussian(dim)`."""
        return np.stack([self.means(outputs), self.log_scales(outputs)], axis=-1).reshape(np.shape(outputs))

    def log_probs(self, outputs: np.ndarray, actions: np.ndarray) -> np.ndarray:
        z = self.standardised(outputs, actions)
        return np.asarray(normal_log_density(z, self.log_scales(outputs)).sum(axis=1))

    def scores(self, outputs: np.ndarray, actions: np.ndarray) -> np.ndarray:
        z = self.standardised(outputs, actions)
        return np.append(z, (z * z - 1.0) / np.sqrt(2.0), axis=1)

    def variances(self, outputs: np.ndarray) -> np.ndarray:
        return np.ones((len(outputs), 2 * self.dim))

    def mode(self, outputs: np.ndarray) -> np.ndarray:
        return self.means(outputs)
