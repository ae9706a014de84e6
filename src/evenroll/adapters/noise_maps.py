"""Distributions that are neither categorical nor Gaussian with independent dimensions: their noise is what is balanced.

An action of such a distribution is a function of its parameters and of standard Gaussian numbers z: for a Beta distribution
and others of one number each the quantile at Φ(z), for a multivariate normal distribution mean + L z; for a mixture one more
number chooses among its parts. So z, which has the same distribution in every
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
from scipy.special import betainc, betaincinv, expit, logit, ndtr, ndtri
from torch.distributions import (
    AffineTransform,
    Bernoulli,
    Beta,
    Categorical,
    ComposeTransform,
    Distribution,
    ExpTransform,
    Independent,
    IndependentTransform,
    MixtureSameFamily,
    MultivariateNormal,
    Normal,
    OneHotCategorical,
    SigmoidTransform,
    TanhTransform,
    TransformedDistribution,
)

from evenroll.adapters.spaces import Actions
from evenroll.errors import DataError, PolicyError

FARTHEST = 8.0  # noise is sought within ± 8, beyond which Φ does not tell numbers apart
NEARLY_ONE = 1.0 - 1e-7  # the largest tanh that is undone
LEAST_SHARE = 1e-15  # quantiles are taken at shares that are at least so far from 0 and 1, where some are infinite


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
    return actions.mixed or any(_only_by_noise(one) for one in several)


def _only_by_noise(result: Any) -> bool:
    base, transforms = _base(result)
    if isinstance(base, Normal):
        return any(isinstance(transform, ExpTransform) for transform in transforms)
    return isinstance(base, Beta | MultivariateNormal | MixtureSameFamily) or _has_quantiles(base)


def _has_quantiles(base: Any) -> bool:
    """Whether a distribution tells its quantiles. torch's icdf raises where it is missing."""
    return isinstance(base, Distribution) and not base.event_shape and type(base).icdf is not Distribution.icdf


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
    elif isinstance(base, MixtureSameFamily):
        part = _mixture(base)
    elif _has_quantiles(base):
        part = _by_quantiles(base)
    else:
        raise PolicyError(f"the policy gives a {type(result).__name__} of {type(base).__name__} for actions {head.space}")
    for transform in transforms:
        part = _transformed(part, transform)
    dim = part.likeliest.shape[1]
    if bool(head.choices) != isinstance(base, Categorical | OneHotCategorical | Bernoulli) or dim != head.dim:
        raise PolicyError(f"the policy gives a {type(base).__name__} of {dim} numbers for actions {head.space}")
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


def _by_quantiles(base: Any) -> Part:
    """Numbers that are independent of each other, each by its quantile at Φ(z)."""
    shape = base.batch_shape
    names = [name for name in base.arg_constraints if name in vars(base)]
    described = np.concatenate([_numbers(getattr(base, name).expand(shape)) for name in names], axis=1)

    def play(z: np.ndarray) -> np.ndarray:
        u = np.clip(ndtr(z), LEAST_SHARE, 1.0 - LEAST_SHARE)
        return _numbers(base.icdf(torch.as_tensor(u).reshape(shape)))

    def undo(x: np.ndarray) -> np.ndarray:
        return ndtri(_numbers(base.cdf(torch.as_tensor(x).reshape(shape))))

    middle = np.zeros((len(described), described.shape[1] // max(len(names), 1)))
    return Part(middle.shape[1], described, play, undo, play(middle))


def _mixture(base: MixtureSameFamily) -> Part:
    """A number of noise for the choice of a part, and one for each number of the action, which is that part's.

    Either all numbers of an action come of one part (the parts have several numbers each), or each chooses for itself.
    """
    inner, transforms = _base(base.component_distribution)
    if not isinstance(inner, Normal) or transforms:
        raise PolicyError(f"the policy gives a mixture of {type(inner).__name__}: only mixtures of Normal are known")
    together = bool(base.component_distribution.event_shape)
    p = base.mixture_distribution.probs.detach().double()
    mean, scale = (x.detach().double() for x in torch.broadcast_tensors(inner.loc, inner.scale))
    if not together:
        mean, scale = mean[..., None], scale[..., None]  # the numbers of a part come last
    n, parts, numbers = len(mean), p.shape[-1], mean.shape[-1]
    p = p.reshape(n, -1, parts).numpy()
    mean, scale = (x.reshape(n, -1, parts, numbers).numpy() for x in (mean, scale))
    choices, each = p.shape[1], numbers
    ends = np.cumsum(p, axis=2)
    ends[:, :, -1] = 1.0

    def chosen(x: np.ndarray, which: np.ndarray) -> np.ndarray:
        return np.take_along_axis(x, which[:, :, None, None], axis=2)[:, :, 0]

    def play(z: np.ndarray) -> np.ndarray:
        which = np.minimum((ends <= ndtr(z[:, :choices])[:, :, None]).sum(axis=2), parts - 1)
        own = z[:, choices:].reshape(n, choices, each)
        return (chosen(mean, which) + chosen(scale, which) * own).reshape(n, -1)

    def undo(x: np.ndarray) -> np.ndarray:
        raise DataError(
            "the policy gives a mixture, and actions do not tell which noise they came of: collect the data with it"
        )

    described = np.concatenate([x.reshape(n, -1) for x in (np.log(np.maximum(p, 1e-300)), mean, scale)], axis=1)
    return Part(choices * (1 + each), described, play, undo, chosen(mean, p.argmax(axis=2)).reshape(n, -1))


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
    if isinstance(transform, ExpTransform):
        return Part(
            part.width, part.parameters, lambda z: np.exp(part.play(z)), lambda x: part.undo(np.log(x)),
            np.exp(part.likeliest),
        )  # fmt: skip
    if isinstance(transform, SigmoidTransform):
        return Part(
            part.width, part.parameters, lambda z: expit(part.play(z)), lambda x: part.undo(logit(x)), expit(part.likeliest)
        )
    raise PolicyError(f"the policy transforms its actions by {type(transform).__name__}, which is not known")
