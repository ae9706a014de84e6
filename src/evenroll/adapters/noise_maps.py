"""Distributions that are neither categorical nor Gaussian with independent dimensions: their noise is what is balanced.

An action of such a distribution is a function of its parameters and of standard Gaussian numbers z: for a Beta distribution
the quantile at Φ(z), for a multivariate normal distribution mean + L z. So z, which has the same distribution in every
state, is what the sampler draws, balances and records; the environment gets the action. The density of the action differs
from that of z by a Jacobian that cancels in every ratio π_b/π_e. The same works for several heads of different kinds, where
a discrete action is the quantile of its probabilities.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.special import betainc, betaincinv, ndtr, ndtri
from torch.distributions import (
    AffineTransform,
    Bernoulli,
    Beta,
    Categorical,
    ComposeTransform,
    Independent,
    IndependentTransform,
    MultivariateNormal,
    Normal,
    OneHotCategorical,
    TanhTransform,
    TransformedDistribution,
)

from evenroll.adapters.spaces import Actions
from evenroll.errors import PolicyError

FARTHEST = 8.0  # noise is sought within ± 8, beyond which Φ does not tell numbers apart
NEARLY_ONE = 1.0 - 1e-7  # the largest tanh that is undone


@dataclass(frozen=True)
class Part:
    """One head.

    parameters  [n, …] numbers that describe its distributions, by which two answers of a policy are compared
    play        noise [n, width] → actions [n, dim] as numbers
    undo        actions [n, dim] → noise [n, width], as far as it can be told
    likeliest   [n, dim] the likeliest actions; the mean where a density has no single peak
    """

    width: int
    parameters: np.ndarray
    play: Callable[[np.ndarray], np.ndarray]
    undo: Callable[[np.ndarray], np.ndarray]
    likeliest: np.ndarray


def needs_noise(result: Any, actions: Actions) -> bool:
    """Whether a policy's result is one that only its noise describes."""
    several = list(result.values()) if isinstance(result, dict) else result if isinstance(result, list | tuple) else [result]
    return actions.mixed or any(isinstance(_base(one)[0], Beta | MultivariateNormal) for one in several)


class NoiseMap:
    """From the noise to the actions of the environment, and back. `read` takes what the policy gives for a batch."""

    def __init__(self, actions: Actions) -> None:
        self.env, self.heads = actions, actions.parts or (actions,)
        self.parts: list[Part] = []
        self.drawn = self.outside = 0  # actions that were played, and how many of them were clipped

    @property
    def width(self) -> int:
        return sum(part.width for part in self.parts)

    def read(self, result: Any) -> np.ndarray:
        """Take over the distributions of a batch. Returns the numbers that describe them, [n, …]."""
        several = self.env.split(result) if isinstance(result, dict) and self.env.parts else result
        results = list(several) if isinstance(several, list | tuple) and self.env.parts else [several]
        if len(results) != len(self.heads):
            raise PolicyError(f"the policy gives {len(results)} distributions for {len(self.heads)} actions")
        self.parts = [_part(x, head) for x, head in zip(results, self.heads, strict=True)]
        return np.concatenate([part.parameters for part in self.parts], axis=1)

    def played(self, noise: np.ndarray) -> Any:
        """The actions that the environment gets for noise [n, width], in the batch that was read last."""
        at, rows = 0, []
        for part in self.parts:
            rows.append(part.play(noise[:, at : at + part.width]))
            at += part.width
        drawn = np.concatenate(rows, axis=1)
        self.drawn, self.outside = self.drawn + len(drawn), self.outside + self._beyond(drawn)
        return self.env.to_envs(drawn)

    def _beyond(self, drawn: np.ndarray) -> int:
        return 0 if self.env.choices or self.env.mixed else round(self.env.clipped(drawn) * len(drawn))

    def noise_of(self, actions: np.ndarray) -> np.ndarray:
        """The noise [n, width] that gives these actions [n, dim] in the batch that was read last."""
        at, rows = 0, []
        for part, head in zip(self.parts, self.heads, strict=True):
            rows.append(part.undo(actions[:, at : at + head.dim]))
            at += head.dim
        return np.clip(np.concatenate(rows, axis=1), -FARTHEST, FARTHEST)

    def likeliest(self) -> Any:
        """The likeliest actions in the batch that was read last, as the environment wants them."""
        return self.env.to_envs(np.concatenate([part.likeliest for part in self.parts], axis=1))

    @property
    def clipped(self) -> float:
        """The share of the actions that lay outside the bounds, so that the environment got others."""
        return self.outside / max(self.drawn, 1)


def _base(result: Any) -> tuple[Any, list[Any]]:
    """The distribution inside, and the transforms that come after it."""
    transforms: list[Any] = []
    result = getattr(result, "distribution", result)
    while isinstance(result, Independent | TransformedDistribution):
        if isinstance(result, TransformedDistribution):
            transforms = [*_flat(result.transforms), *transforms]
        result = result.base_dist
    return result, transforms


def _flat(transforms: Any) -> list[Any]:
    found: list[Any] = []
    for part in transforms:
        while isinstance(part, IndependentTransform):
            part = part.base_transform
        found += _flat(part.parts) if isinstance(part, ComposeTransform) else [part]
    return found


def _numbers(x: torch.Tensor) -> np.ndarray:
    return x.detach().double().reshape(len(x), -1).numpy()


def _part(result: Any, head: Actions) -> Part:
    base, transforms = _base(result)
    if isinstance(base, Categorical | OneHotCategorical | Bernoulli) and not transforms:
        part = _discrete(base, head)
    elif isinstance(base, Beta):
        part = _beta(base)
    elif isinstance(base, Normal):
        part = _normal(base)
    elif isinstance(base, MultivariateNormal):
        part = _multivariate(base)
    else:
        raise PolicyError(f"the policy gives a {type(result).__name__} of {type(base).__name__} for actions {head.space}")
    for transform in transforms:
        part = _transformed(part, transform)
    if bool(head.choices) != isinstance(base, Categorical | OneHotCategorical | Bernoulli) or part.width != head.dim:
        raise PolicyError(f"the policy gives a {type(base).__name__} of {part.width} numbers for actions {head.space}")
    return part


def _beta(base: Beta) -> Part:
    a, b = (_numbers(x) for x in torch.broadcast_tensors(base.concentration1, base.concentration0))

    def play(z: np.ndarray) -> np.ndarray:
        upper = 1.0 - betaincinv(b, a, ndtr(-z))  # of the smaller tail, where numbers are exact
        return np.where(z > 0.0, upper, betaincinv(a, b, ndtr(z)))

    def undo(x: np.ndarray) -> np.ndarray:
        below, above = betainc(a, b, np.clip(x, 0.0, 1.0)), betainc(b, a, np.clip(1.0 - x, 0.0, 1.0))
        return np.where(below > 0.5, -ndtri(above), ndtri(below))

    peak = np.where((a > 1.0) & (b > 1.0), (a - 1.0) / np.maximum(a + b - 2.0, 1e-300), a / (a + b))
    return Part(a.shape[1], np.append(a, b, axis=1), play, undo, peak)


def _normal(base: Normal) -> Part:
    mean, scale = (_numbers(x) for x in torch.broadcast_tensors(base.loc, base.scale))
    described = np.append(mean, np.log(scale), axis=1)
    return Part(mean.shape[1], described, lambda z: mean + scale * z, lambda x: (x - mean) / scale, mean)


def _multivariate(base: MultivariateNormal) -> Part:
    mean, width = _numbers(base.loc), base.loc.shape[-1]
    root = base.scale_tril.detach().double().expand(len(mean), width, width).numpy()
    return Part(
        width,
        np.append(mean, root.reshape(len(mean), -1), axis=1),
        lambda z: mean + np.einsum("nij,nj->ni", root, z),
        lambda x: np.linalg.solve(root, (x - mean)[:, :, None])[:, :, 0],
        mean,
    )


def _discrete(base: Any, head: Actions) -> Part:
    """The quantile of the probabilities at Φ(z). Back goes the middle of the range that belongs to an action."""
    p = base.probs if not isinstance(base, Bernoulli) else torch.stack([1.0 - base.probs, base.probs], dim=-1)
    n = head.choices[0] if head.choices else 0
    if len(set(head.choices)) != 1 or p.shape[-1] != n:
        raise PolicyError(f"the policy gives {p.shape[-1]} probabilities for actions {head.space}")
    probabilities = p.detach().double().reshape(len(p), -1, n).numpy()
    ends = np.cumsum(probabilities, axis=2)
    ends[:, :, -1] = 1.0

    def undo(x: np.ndarray) -> np.ndarray:
        chosen = x.astype(np.int64)[:, :, None]
        above = np.take_along_axis(ends, chosen, axis=2)
        return ndtri((above - np.take_along_axis(probabilities, chosen, axis=2) / 2)[:, :, 0])

    return Part(
        ends.shape[1],
        np.log(np.maximum(probabilities.reshape(len(ends), -1), 1e-300)),
        lambda z: np.minimum((ends <= ndtr(z)[:, :, None]).sum(axis=2), n - 1).astype(np.float64),
        undo,
        probabilities.argmax(axis=2).astype(np.float64),
    )


def _transformed(part: Part, transform: Any) -> Part:
    if isinstance(transform, AffineTransform):
        b, a = (np.asarray(torch.as_tensor(x).detach().double()) for x in (transform.loc, transform.scale))
        likeliest = b + a * part.likeliest
        return Part(part.width, part.parameters, lambda z: b + a * part.play(z), lambda x: part.undo((x - b) / a), likeliest)
    if isinstance(transform, TanhTransform):
        return Part(
            part.width, part.parameters, lambda z: np.tanh(part.play(z)),
            lambda x: part.undo(np.arctanh(np.clip(x, -NEARLY_ONE, NEARLY_ONE))), np.tanh(part.likeliest),
        )  # fmt: skip
    raise PolicyError(f"the policy transforms its actions by {type(transform).__name__}, which is not known")
