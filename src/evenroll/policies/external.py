"""A policy whose network runs elsewhere: it hands in its features and outputs, and everything after them is compiled.

An "observation" of such a policy is [features, outputs] of a state. The outputs are the logits of one or several discrete
actions, or the mean and log scale of each dimension of a Gaussian. The same sampler pieces run on it as on our own
networks, so that `auto` has one definition. Its parameters are those of the last layer, outputs = W [features, 1].
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from evenroll.engine.helpers import helper
from evenroll.engine.pieces import Floats, Piece, Reals, piece, real, shift
from evenroll.engine.scalars import exp_negative
from evenroll.engine.simd import narrow
from evenroll.engine.views import beyond
from evenroll.errors import PolicyError
from evenroll.policies.base import Policy
from evenroll.policies.distributions import Categorical, Distribution, Gaussian
from evenroll.policies.heads import (
    CATEGORICAL,
    GAUSSIAN,
    LEAST_RATIO,
    score_categorical,
    score_gaussian,
    softmax,
    tame,
)
from evenroll.policies.interface import (
    ADD_SCORE,
    DRAW,
    DRIFT,
    FEATURES,
    FORWARD,
    FORWARD_E,
    LOG_PROB,
    PREPARE,
    SCORES,
    SOFTEN,
    TILT,
    PolicyView,
    out_b,
)
from evenroll.text.specs import whole_number

LARGEST = 1_000_000  # features or outputs; with so many a step takes seconds


class External(Policy):
    """A policy known by its features and outputs. Either `choices` or `gaussian` is given.

    features  how many numbers ψ(s) has, apart from its constant 1
    choices   how many values each discrete factor has (one factor for Discrete, several for MultiDiscrete)
    gaussian  how many dimensions a real action has
    """

    def __init__(self, features: int, *, choices: Sequence[int] = (), gaussian: int = 0) -> None:
        features, gaussian = whole_number("features", features, 0), whole_number("gaussian", gaussian, 0)
        choices = [whole_number("choices", n, 0) for n in choices]
        if (len(choices) == 0) == (gaussian == 0):
            raise PolicyError("a policy has discrete or real actions")
        if max(features, gaussian, *choices, 0) > LARGEST:
            raise PolicyError(f"a policy has at most {LARGEST:,} features or outputs")
        if any(n < 2 for n in choices):
            raise PolicyError(f"every factor of a discrete action needs at least 2 values, not {list(choices)}")
        self.choices, self.features_dim = tuple(int(n) for n in choices), features
        n_out = sum(self.choices) if choices else 2 * gaussian
        self.n_actions = self.choices[0] if len(choices) == 1 else None
        self.action_dim = len(self.choices) or gaussian
        self.obs_dim = features + n_out
        self.theta = np.zeros(n_out * (features + 1), dtype=np.float32)
        self.aux = np.zeros(1, dtype=np.float32)
        exponential = [1, 1]  # links: the mean is the output itself, the scale is its exponential
        self.dims = np.array(
            [n_out, self.action_dim, len(self.theta), features, 0, 0, 0, *exponential, int(gaussian > 0),
             len(self.choices), *self.choices],
            dtype=np.int64,
        )  # fmt: skip
        self.work_size = features + 1

    @property
    def feature_width(self) -> int:
        return self.features_dim + 1

    @property
    def distribution(self) -> Distribution:
        return Categorical(self.choices) if self.choices else Gaussian(self.action_dim)

    def parameters_of_actions(self, observations: np.ndarray) -> np.ndarray:
        """The outputs that were handed in with observations [N, features + outputs]."""
        return observations[:, self.features_dim :]

    def pieces(self) -> dict[str, Piece]:
        own = {
            "forward": forward_external,
            "forward_e": forward_e_external,
            "add_score": add_score_external,
            "prepare": prepare_external,
            "features": features_external,
        }
        return own | (GAUSSIAN if not self.choices else CATEGORICAL if len(self.choices) == 1 else FACTORS)


@helper
def _factors(policy: PolicyView) -> int:
    """How many discrete actions are drawn independently of each other; 0 for a Gaussian."""
    return beyond(policy.sizes)[0]


@helper
def _values(policy: PolicyView, factor: int) -> int:
    """How many values a discrete factor can take."""
    return beyond(policy.sizes)[1 + factor]


@helper
def _take(policy: PolicyView, obs: Floats) -> None:
    n, width, behavior = policy.sizes.outputs, policy.sizes.inputs, out_b(policy)
    for i in range(width):
        policy.work[i] = narrow(obs[i], policy.work)
    policy.work[width] = narrow(1.0, policy.work)
    for r in range(n):
        policy.out[r] = obs[width + r]
        behavior[r] = obs[width + r]


@piece(FORWARD_E)
def forward_e_external(policy: PolicyView, obs: Floats) -> None:
    _take(policy, obs)


@piece(FORWARD)
def forward_external(policy: PolicyView, vector: Reals, c: float, obs: Floats) -> None:
    """Take the outputs that were handed in. At θ_b = θ − c·vector they are smaller by c · vector [features, 1]."""
    _take(policy, obs)
    if c != 0.0:
        n, width, behavior = policy.sizes.outputs, policy.sizes.inputs, out_b(policy)
        for r in range(n):
            v = shift(vector, r * (width + 1))
            for i in range(width + 1):
                behavior[r] -= c * v[i] * policy.work[i]
        tame(policy)


@piece(ADD_SCORE)
def add_score_external(policy: PolicyView, obs: Floats, action: Floats, weight: float, vector: Reals) -> None:
    """vector += weight · (score of the outputs) ⊗ [features, 1]."""
    n, width = policy.sizes.outputs, policy.sizes.inputs
    d = shift(policy.out, 2 * n)
    if _factors(policy) == 0:
        score_gaussian(policy.sizes, policy.out, action, weight, d)
    else:
        _score_factors(policy, action, weight, d)
    for r in range(n):
        v = shift(vector, r * (width + 1))
        for i in range(width + 1):
            v[i] += real(d[r] * policy.work[i])


@piece(FEATURES)
def features_external(policy: PolicyView, weight: float, psi: Reals) -> None:
    factor = real(weight)
    for i in range(policy.sizes.inputs + 1):
        psi[i] = factor * policy.work[i]


@piece(PREPARE)
def prepare_external(policy: PolicyView) -> None:
    """Nothing has to be recomputed: no number follows from θ here."""


# ---- several discrete actions at once: independent factors ---------------------------------------------------------


@helper
def _score_factors(policy: PolicyView, action: Floats, weight: float, d: Floats) -> None:
    at = 0
    for f in range(_factors(policy)):
        n = _values(policy, f)
        score_categorical(n, shift(policy.out, at), shift(action, f), weight, shift(d, at))
        at += n


@piece(SCORES)
def scores_factors(policy: PolicyView, action: Floats, x: Floats) -> None:
    _score_factors(policy, action, 1.0, x)


@piece(DRAW)
def draw_factors(policy: PolicyView, u: Floats, action: Floats) -> None:
    at = 0
    for f in range(_factors(policy)):
        n, logits = _values(policy, f), shift(out_b(policy), at)
        top = logits[0]
        for i in range(1, n):
            top = max(top, logits[i])
        total = 0.0
        for i in range(n):
            total += exp_negative(logits[i] - top)
        threshold, cumulative, a = u[f] * total, 0.0, 0
        for i in range(n - 1):
            cumulative += exp_negative(logits[i] - top)
            a += 1 if cumulative <= threshold else 0
        action[f] = a
        at += n


@piece(LOG_PROB)
def log_prob_factors(policy: PolicyView, out: Floats, action: Floats) -> float:
    at, result = 0, 0.0
    for f in range(_factors(policy)):
        n, logits = _values(policy, f), shift(out, at)
        top = logits[0]
        for i in range(1, n):
            top = max(top, logits[i])
        total = 0.0
        for i in range(n):
            total += exp_negative(logits[i] - top)
        result += logits[int(action[f])] - top - math.log(total)
        at += n
    return result


@piece(SOFTEN)
def soften_factors(policy: PolicyView, delta: float) -> None:
    """Make every factor's π_b = (1 − δ) π_e + δ / n."""
    at = 0
    for f in range(_factors(policy)):
        n, mixed = _values(policy, f), shift(out_b(policy), at)
        softmax(n, shift(policy.out, at), mixed)
        for i in range(n):
            mixed[i] = math.log((1.0 - delta) * mixed[i] + delta / n)
        at += n


@piece(TILT)
def tilt_factors(policy: PolicyView, by: Floats, max_kl: float) -> float:
    """Tilt each factor as `tilt_categorical` does. The divergence is the sum over the factors."""
    at, divergence = 0, 0.0
    for f in range(_factors(policy)):
        n, e, b, t = _values(policy, f), shift(policy.out, at), shift(out_b(policy), at), shift(by, at)
        pi = shift(policy.out, 2 * policy.sizes.outputs)
        softmax(n, e, pi)
        mean = 0.0
        for i in range(n):
            mean += pi[i] * t[i]
        total, part = 0.0, 0.0
        for i in range(n):
            ratio = max(1.0 - (t[i] - mean), LEAST_RATIO)
            b[i] = e[i] + math.log(ratio)
            total += pi[i] * ratio
            part += pi[i] * ratio * math.log(ratio)
        divergence += max(part / total - math.log(total), 0.0)
        at += n
    return divergence


@piece(DRIFT)
def drift_factors(policy: PolicyView, x: Floats) -> None:
    """π_b − π_e of every factor."""
    at, pi = 0, shift(policy.out, 2 * policy.sizes.outputs)
    for f in range(_factors(policy)):
        n, of_b = _values(policy, f), shift(x, at)
        softmax(n, shift(out_b(policy), at), of_b)
        softmax(n, shift(policy.out, at), pi)
        for i in range(n):
            of_b[i] -= pi[i]
        at += n


FACTORS = {
    "draw": draw_factors,
    "log_prob": log_prob_factors,
    "soften": soften_factors,
    "scores": scores_factors,
    "tilt": tilt_factors,
    "draw_tilted": draw_factors,
    "log_tilted": log_prob_factors,
    "drift": drift_factors,
}
