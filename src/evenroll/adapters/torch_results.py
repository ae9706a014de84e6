"""What a torch policy gives, read as the outputs of a known distribution: logits, or means and log scales.

A network may give a distribution of torch, a list of them, or a tensor of logits or probabilities. Which it is, is decided
once, on probe observations, and stays so. A squashed Gaussian is read as the Gaussian before its squash, because there its
scores are simple; the squash becomes part of how a drawn action is played (`Actions.squash`), and its Jacobian cancels in
every ratio π_b/π_e.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch.distributions import (
    AffineTransform,
    Bernoulli,
    ComposeTransform,
    Distribution,
    Independent,
    IndependentTransform,
    Normal,
    OneHotCategorical,
    SigmoidTransform,
    TanhTransform,
    TransformedDistribution,
)
from torch.distributions import Categorical as TorchCategorical

from evenroll.adapters.noise_maps import NoiseMap, needs_noise
from evenroll.adapters.spaces import Actions, of_noise
from evenroll.errors import PolicyError

SAME = 1e-3  # parameters of distributions that differ by less, relative to their size, count as the same
IMPOSSIBLE = -800.0  # the logit that replaces −inf: e⁻⁸⁰⁰ is 0 in double precision, so the action is never drawn
PROBABILITY_ERROR = (
    1e-3  # how far the sum of the probabilities that a policy gives may be from 1, beside what its precision rounds off
)
SQUASH = (  # what to say of actions that were drawn outside the environment's bounds
    "if the policy squashes them with tanh instead, return torch.distributions.TransformedDistribution(Normal(mean, scale), "
    "[TanhTransform()])"
)
KNOWN = (
    "known are Categorical, OneHotCategorical, Bernoulli, Normal, Beta, MultivariateNormal, mixtures of Normal, what has "
    "an icdf (Laplace, Uniform, …), Independent of these, TransformedDistribution(Normal, [TanhTransform(), "
    "AffineTransform(bias, scale)]), and logits; any other works as act(x, noise): evenroll.LatentNoise(act, size)"
)


class Logits(NamedTuple):
    """Logits that are known to be such, and finite: nothing of them is looked at again."""

    rows: torch.Tensor


class Reading:
    """How the results of one policy are read. `actions` are the environment's, squashed as the policy squashes them."""

    def __init__(self, actions: Actions) -> None:
        self.actions, self.choices, self.real = actions, actions.choices, actions.real
        self.probabilities = False  # whether tensors hold probabilities, not logits
        self.note = ""  # what was assumed of the results, for reports
        self.noise: NoiseMap | None = None  # where the noise of the actions is balanced, what it becomes

    def settle(self, result: Any) -> None:
        """Decide from the result on probe observations how results are read."""
        result = self._without_values(result)
        if needs_noise(result, self.actions):
            self.noise = NoiseMap(self.actions)
            self.noise.read(result)
            self.actions = of_noise(self.noise.width)
            self.choices, self.real, self.note = (), self.noise.width, ", its noise balanced"
            return
        result = _unwrapped(self._several(result))
        if isinstance(result, OneHotCategorical) and self.real == result.logits.shape[-1] and not self.actions.parts:
            self.actions = self.actions.as_one_hot()
            self.choices, self.real, self.note = self.actions.choices, 0, ", one-hot"
        elif isinstance(result, torch.Tensor) and self.choices:
            self.probabilities = self._are_probabilities(self._fitting(result))
            self.note = f", its outputs read as {'probabilities' if self.probabilities else 'logits'}"
        elif isinstance(result, TransformedDistribution) and self.real:
            _, _, squash = _before_squash(result)
            if squash is not None:
                self.actions = self.actions.squashed(*squash)
                self.note = ", squashed"

    def outputs(self, result: Any) -> torch.Tensor:
        """The outputs [n, outputs]: logits, or the mean and log scale of each dimension in turn."""
        result = self._without_values(result)
        if self.noise is not None:
            return torch.zeros(len(self.noise.read(result)), 2 * self.real)
        if isinstance(result, Logits):
            return result.rows
        result = _unwrapped(self._several(result))
        if isinstance(result, list | tuple) and result and all(isinstance(_unwrapped(x), Normal) for x in result):
            return torch.cat([self._pairs(_unwrapped(x)) for x in result], dim=1)
        if isinstance(result, Normal | TransformedDistribution):
            return self._gaussian(result)
        if isinstance(result, list | tuple) and result and all(isinstance(x, TorchCategorical) for x in result):
            return self._logits(torch.cat([x.logits for x in result], dim=-1))
        if isinstance(result, TorchCategorical | OneHotCategorical):
            return self._logits(result.logits)
        if isinstance(result, Bernoulli):
            x = result.logits.reshape(len(result.logits), -1)
            return self._logits(torch.stack([torch.zeros_like(x), x], dim=-1).reshape(len(x), -1))
        if isinstance(result, torch.Tensor):
            return self._tensor(result)
        raise PolicyError(_what_to_do(result))

    def described(self, result: Any) -> torch.Tensor:
        """The numbers [n, …] by which two answers of the policy to the same observations are compared."""
        if self.noise is None:
            return self.outputs(result)
        return torch.as_tensor(self.noise.read(self._without_values(result)))

    def same(self, a: np.ndarray, b: np.ndarray) -> bool:
        """Whether two sets of such numbers describe the same distributions, up to rounding."""
        if self.noise is None:
            return self.actions.distribution.same(a, b)
        return a.shape == b.shape and bool(np.allclose(a, b, rtol=SAME, atol=SAME))

    def _without_values(self, result: Any) -> Any:
        """The distribution, or the logits, of an actor-critic network that gives values beside them."""
        if not isinstance(result, tuple) or len(result) < 2 or not all(isinstance(x, torch.Tensor) for x in result[1:]):
            return result
        first, n = result[0], len(result[1]) if result[1].ndim else 0
        if isinstance(first, Distribution):
            return first
        logits = isinstance(first, torch.Tensor) and first.shape == (n, sum(self.choices)) and sum(self.choices) > 1
        return first if logits and all(x.numel() == n for x in result[1:]) else result

    def _several(self, result: Any) -> Any:
        """The distributions of a Dict of actions, in the order of its parts."""
        if not isinstance(result, dict) or not self.actions.parts:
            return result
        parts = self.actions.split(result)
        return [x for part in parts for x in (part if isinstance(part, list | tuple) else [part])]

    def _gaussian(self, result: Normal | TransformedDistribution) -> torch.Tensor:
        if not self.real:
            raise PolicyError("the policy gives a Normal distribution, the actions are discrete")
        out = self._pairs(result)
        if out.shape[1] != 2 * self.real:
            raise PolicyError(f"the policy gives {out.shape[1] // 2} real actions, the environment takes {self.real}")
        return out

    @staticmethod
    def _pairs(result: Normal | TransformedDistribution) -> torch.Tensor:
        mean, scale = (result.loc, result.scale) if isinstance(result, Normal) else _before_squash(result)[:2]
        mean, scale = (x.reshape(len(x), -1) for x in torch.broadcast_tensors(mean, scale))
        return torch.stack([mean, scale.log()], dim=-1).reshape(len(mean), -1)

    def _tensor(self, result: torch.Tensor) -> torch.Tensor:
        if self.real:
            raise PolicyError(
                "the policy gives a tensor for real actions: return torch.distributions.Normal(mean, scale), or pass "
                "deterministic=True if the tensor is the action"
            )
        if not self.probabilities:
            return self._logits(result)
        p = self._fitting(result)
        if not self._are_probabilities(p):
            raise PolicyError(
                "the policy's outputs were probabilities at first and are not any more: return logits, or "
                "torch.distributions.Categorical(probs=p)"
            )
        return torch.clamp(p.log(), min=IMPOSSIBLE)

    def _are_probabilities(self, p: torch.Tensor) -> bool:
        """Whether each factor's numbers are non-negative and sum to 1, up to rounding, in every row."""
        rounding = torch.finfo(p.dtype).eps if p.is_floating_point() else 0.0
        p = p.detach().double()
        sums = torch.stack([part.sum(dim=1) for part in torch.split(p, self.choices, dim=1)])
        largest = max(PROBABILITY_ERROR, rounding * max(self.choices))
        return bool((p >= 0.0).all()) and bool(((sums - 1.0).abs() <= largest).all())

    def _logits(self, logits: torch.Tensor) -> torch.Tensor:
        return torch.clamp(self._fitting(logits), min=IMPOSSIBLE)  # clamp keeps nan

    def _fitting(self, rows: torch.Tensor) -> torch.Tensor:
        n = sum(self.choices)
        if rows.ndim == 1 and len(self.choices) == 1:
            raise PolicyError(
                "the policy gives one number for each observation, an action it seems: return the distribution of its "
                "actions, such as torch.distributions.Categorical(logits=…); or pass deterministic=True if it draws nothing"
            )
        if rows.ndim != 2 or rows.shape[1] != n:
            has = f"{n} action values" if n else "real actions"
            raise PolicyError(f"the policy gives logits of shape {list(rows.shape)}, the environment has {has}")
        return rows

    def log_probs(self, out: torch.Tensor, actions: np.ndarray) -> torch.Tensor:
        """log π(a|s) [n] of actions [n, dim] from outputs, with their graph. Real actions are those before a squash."""
        if self.real:
            a = torch.as_tensor(actions, dtype=out.dtype)
            return Normal(out[:, 0::2], out[:, 1::2].exp()).log_prob(a).sum(dim=1)
        chosen, total = torch.as_tensor(actions, dtype=torch.int64), torch.zeros(len(out), dtype=out.dtype)
        for i, part in enumerate(torch.split(out, self.choices, dim=1)):
            total = total + TorchCategorical(logits=part).log_prob(chosen[:, i])
        return total


def _unwrapped(result: Any) -> Any:
    """The distribution inside. Stable-Baselines3 wraps torch's, and Independent only sums log-probabilities."""
    result = getattr(result, "distribution", result)
    while isinstance(result, Independent):
        result = result.base_dist
    return result


def _before_squash(result: Any) -> tuple[torch.Tensor, torch.Tensor, tuple[np.ndarray, np.ndarray] | None]:
    """(mean, scale, squash) of a transformed Gaussian: b + a·tanh(x) of x ~ Normal(mean, scale), squash = (b, a) or None."""
    base = _unwrapped(result.base_dist)
    if not isinstance(base, Normal):
        raise PolicyError(f"the policy gives a transformed {type(base).__name__}; {KNOWN}")
    mean, scale = base.loc, base.scale
    squash: tuple[np.ndarray, np.ndarray] | None = None
    for part in _flat(result.transforms):
        if isinstance(part, AffineTransform) and squash is None:
            mean, scale = part.loc + part.scale * mean, scale * torch.as_tensor(part.scale).abs()
        elif isinstance(part, AffineTransform) and squash is not None:
            b, a = _fixed(part.loc), _fixed(part.scale)
            squash = b + a * squash[0], a * squash[1]
        elif isinstance(part, TanhTransform) and squash is None:
            squash = np.zeros(1), np.ones(1)
        elif isinstance(part, SigmoidTransform) and squash is None:  # 1/(1 + e⁻ˣ) = ½ + ½ tanh(x/2)
            mean, scale, squash = mean / 2, scale / 2, (np.full(1, 0.5), np.full(1, 0.5))
        else:
            raise PolicyError(f"the policy transforms its actions by {type(part).__name__}; {KNOWN}")
    return mean, scale, squash


def _flat(transforms: Any) -> list[Any]:
    found: list[Any] = []
    for part in transforms:
        while isinstance(part, IndependentTransform):
            part = part.base_transform
        found += _flat(part.parts) if isinstance(part, ComposeTransform) else [part]
    return found


def _fixed(x: Any) -> np.ndarray:
    """A number or vector that does not depend on the observation."""
    x = torch.as_tensor(x).detach().double().numpy()
    rows = x.reshape(-1, x.shape[-1]) if x.ndim else x.reshape(1, 1)
    if (rows != rows[0]).any():
        raise PolicyError("the policy scales its squashed actions differently in every state, which is not supported")
    return np.asarray(rows[0])


def _what_to_do(result: Any) -> str:
    kind = type(result).__name__
    if isinstance(result, list | tuple):
        held = ", ".join(type(x).__name__ for x in result)
        return (
            f"the policy gives a {kind} of {held}: wrap it so that it gives the distribution alone, for example "
            "`class Wrapped(torch.nn.Module)` whose forward(x) returns Normal(mean, scale) of them, or "
            "Normal(mean, log_scale.exp())"
        )
    return f"the policy gives a {kind}; {KNOWN}: wrap it in a torch.nn.Module whose forward(x) returns one of these"


def batch_of_one(result: Any) -> Any:
    """A distribution of the actions at one observation, or several of them, as a batch of one."""
    if isinstance(result, dict):
        return {key: batch_of_one(part) for key, part in result.items()}
    if isinstance(result, list | tuple):
        return [batch_of_one(part) for part in result]
    inner = _unwrapped(result)
    shape = tuple(result.batch_shape)
    if isinstance(inner, TorchCategorical | OneHotCategorical):
        missing = 1 - len(shape)
    else:
        missing = 2 - len(shape) - len(result.event_shape)
    return result.expand((1,) * missing + shape) if missing > 0 else result
