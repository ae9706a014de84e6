"""Compiled output distributions: from the outputs of a network or table to actions, log-probabilities and scores.

The outputs of a categorical distribution are logits. Those of a Gaussian come in pairs (mean, scale) before their link
functions: tanh or identity for the mean, softplus or exp for the scale. `Sizes.mean_link` and `Sizes.scale_link` say which.
"""

from __future__ import annotations

import math

from evenroll.engine.helpers import helper
from evenroll.engine.pieces import FUSED, Floats, piece, shift
from evenroll.engine.scalars import SQRT_2PI, exp_negative, larger, normal_quantile, sigmoid, softplus, whole
from evenroll.policies.interface import DRAW, DRIFT, LOG_PROB, SCORES, SOFTEN, TILT, PolicyView, Sizes, out_b

LOG_SQRT_2PI = math.log(SQRT_2PI)

FARTHEST = 1000.0  # a Gaussian's outputs at θ_b stay within this, times 1 + |output at θ_e|, of those at θ_e (`tame`)


@helper
def tame(policy: PolicyView) -> None:
    """Keep π_b usable after a huge step. Where an output at θ_b overflows, π_b = π_e; a Gaussian's outputs are bounded.

    Without this a huge α would draw an action of 10⁴⁵, and every number after it would be NaN.
    """
    n, e, b = policy.sizes.outputs, policy.out, out_b(policy)
    sound = True
    for i in range(n):
        sound &= math.isfinite(b[i])
    for i in range(n):
        if not sound:
            b[i] = e[i]
        elif policy.sizes.gaussian == 1:
            reach = FARTHEST * (1.0 + abs(e[i]))
            b[i] = min(max(b[i], e[i] - reach), e[i] + reach)


# ---- categorical -------------------------------------------------------------------------------------------


@helper
def softmax(n: int, logits: Floats, probabilities: Floats) -> None:
    """Probabilities of n logits. The largest logit is subtracted first, so that no step size makes it overflow."""
    top = logits[0]
    for i in range(1, n):
        top = larger(top, logits[i])
    total = 0.0
    for i in range(n):
        probabilities[i] = exp_negative(logits[i] - top)
        total += probabilities[i]
    for i in range(n):
        probabilities[i] /= total


MANY = 8  # actions, from which on two loops are faster than one (30: 0.7 of the time of a step; 4: 1.05)


@piece(DRAW, fastmath=FUSED)
def draw_categorical(policy: PolicyView, u: Floats, action: Floats) -> None:
    """The action is the number of cumulative weights that are at or below u·(their total)."""
    n = policy.sizes.outputs
    logits = out_b(policy)
    cumulative = shift(logits, n)
    top, other = logits[0], logits[n - 1]
    for i in range(1, (n + 1) // 2):  # two maxima, from both ends, take half the time of one
        top, other = larger(top, logits[i]), larger(other, logits[n - 1 - i])
    top = larger(top, other)
    total = 0.0
    if n < MANY:
        for i in range(n):
            total += exp_negative(logits[i] - top)
            cumulative[i] = total
    else:  # several exponentials at a time, which a sum in the same loop would forbid
        for i in range(n):
            cumulative[i] = exp_negative(logits[i] - top)
        for i in range(n):
            total += cumulative[i]
            cumulative[i] = total
    threshold = u[0] * total
    a = 0
    for i in range(n - 1):
        a += cumulative[i] <= threshold
    action[0] = a


@piece(LOG_PROB)
def log_prob_categorical(policy: PolicyView, out: Floats, action: Floats) -> float:
    n = policy.sizes.outputs
    top = out[0]
    for i in range(1, n):
        top = larger(top, out[i])
    total = 0.0
    for i in range(n):
        total += exp_negative(out[i] - top)
    return out[whole(action[0])] - top - math.log(total)


@helper
def score_categorical(n: int, out: Floats, action: Floats, weight: float, d: Floats) -> None:
    """d = weight · (1{a} − π), where 1{a} − π is the score with respect to the logits."""
    softmax(n, out, d)
    for i in range(n):
        d[i] *= -weight
    d[whole(action[0])] += weight


@piece(SOFTEN)
def soften_categorical(policy: PolicyView, delta: float) -> None:
    """Make π_b = (1 − δ) π_e + δ / |A|."""
    n = policy.sizes.outputs
    mixed = out_b(policy)
    softmax(n, policy.out, mixed)
    for i in range(n):
        mixed[i] = math.log((1.0 - delta) * mixed[i] + delta / n)


LEAST_RATIO = 0.02  # the share of its probability that a tilt leaves every action, to bound weights π_e/π_b (docs/auto.md)


@piece(TILT)
def tilt_categorical(policy: PolicyView, by: Floats, max_kl: float) -> float:
    """π_b(a) ∝ π_e(a) · max(1 − (by_a − Σ π_e by), LEAST_RATIO).

    The tilt is linear: E_b[x] = −Cov_e(x) by, however large `by` is, as long as no action reaches the floor.
    The divergence is first bounded without logarithms, KL ≤ χ² = Σ π_b²/π_e − 1, and computed only if that exceeds max_kl.
    The outputs at θ_b then hold the probabilities π_b and, behind them, π_e.
    """
    n, b = policy.sizes.outputs, out_b(policy)
    pi = shift(b, n)
    softmax(n, policy.out, pi)
    mean = 0.0
    for i in range(n):
        mean += pi[i] * by[i]
    total, square = 0.0, 0.0
    for i in range(n):
        ratio = larger(1.0 - (by[i] - mean), LEAST_RATIO)
        b[i] = pi[i] * ratio
        total += b[i]
        square += b[i] * ratio
    for i in range(n):
        b[i] /= total
    divergence = square / (total * total) - 1.0
    if not divergence <= max_kl:
        divergence = 0.0
        for i in range(n):
            if b[i] > 0.0:
                divergence += b[i] * math.log(b[i] / pi[i])
    return larger(divergence, 0.0)  # rounding may leave a little less than 0


@piece(DRAW)
def draw_tilted_categorical(policy: PolicyView, u: Floats, action: Floats) -> None:
    n, b = policy.sizes.outputs, out_b(policy)
    cumulative, a = 0.0, 0
    for i in range(n - 1):
        cumulative += b[i]
        a += cumulative <= u[0]
    action[0] = a


@piece(LOG_PROB)
def log_tilted_categorical(policy: PolicyView, out: Floats, action: Floats) -> float:
    return math.log(out[whole(action[0])])


@piece(SCORES)
def scores_categorical(policy: PolicyView, action: Floats, x: Floats) -> None:
    """x = 1{a} − π_e. The tilt has left π_e behind π_b."""
    n = policy.sizes.outputs
    pi = shift(policy.out, 2 * n)
    for i in range(n):
        x[i] = -pi[i]
    x[whole(action[0])] += 1.0


@piece(DRIFT)
def drift_categorical(policy: PolicyView, x: Floats) -> None:
    """E_b[1{a} − π_e] = π_b − π_e."""
    n, b = policy.sizes.outputs, out_b(policy)
    pi = shift(b, n)
    for i in range(n):
        x[i] = b[i] - pi[i]


# ---- Gaussian, independent dimensions ----------------------------------------------------------------------


@helper
def gaussian_mean(sizes: Sizes, raw: float) -> float:
    return math.tanh(raw) if sizes.mean_link == 0 else raw


@helper
def gaussian_scale(sizes: Sizes, raw: float) -> float:
    return softplus(raw) if sizes.scale_link == 0 else math.exp(raw)


@piece(DRAW)
def draw_gaussian(policy: PolicyView, u: Floats, action: Floats) -> None:
    """The action is mean + scale · Φ⁻¹(u), with one uniform number for each dimension."""
    out = out_b(policy)
    for i in range(policy.sizes.action_dim):
        mean, scale = gaussian_mean(policy.sizes, out[2 * i]), gaussian_scale(policy.sizes, out[2 * i + 1])
        action[i] = mean + scale * normal_quantile(u[i])


@piece(LOG_PROB)
def log_prob_gaussian(policy: PolicyView, out: Floats, action: Floats) -> float:
    total = 0.0
    for i in range(policy.sizes.action_dim):
        mean, scale = gaussian_mean(policy.sizes, out[2 * i]), gaussian_scale(policy.sizes, out[2 * i + 1])
        z = (action[i] - mean) / scale
        total -= 0.5 * z * z + math.log(scale) + LOG_SQRT_2PI
    return total


@helper
def score_gaussian(sizes: Sizes, out: Floats, action: Floats, weight: float, d: Floats) -> None:
    """d = weight · (the score with respect to the outputs before the link functions)."""
    for i in range(sizes.action_dim):
        mean, scale = gaussian_mean(sizes, out[2 * i]), gaussian_scale(sizes, out[2 * i + 1])
        z = (action[i] - mean) / scale
        slope = 1.0 - mean * mean if sizes.mean_link == 0 else 1.0
        d[2 * i] = weight * z / scale * slope
        if sizes.scale_link == 0:
            d[2 * i + 1] = weight * (z * z - 1.0) / scale * sigmoid(out[2 * i + 1])
        else:
            d[2 * i + 1] = weight * (z * z - 1.0)


@piece(SOFTEN)
def soften_gaussian(policy: PolicyView, delta: float) -> None:
    """Keep the mean and make σ_b = (1 + δ) σ_e. Both are written back as outputs before the link functions."""
    wide = out_b(policy)
    for i in range(policy.sizes.action_dim):
        wide[2 * i] = policy.out[2 * i]
        scale = (1.0 + delta) * gaussian_scale(policy.sizes, policy.out[2 * i + 1])
        wide[2 * i + 1] = scale + math.log1p(-math.exp(-scale)) if policy.sizes.scale_link == 0 else math.log(scale)


SQRT_HALF = math.sqrt(0.5)
FARTHEST_MEAN, LEAST_VARIANCE, MOST_VARIANCE = 1.0, 0.25, 2.0  # limits of z's moments under a tilt: a dimension's KL ≤ 0.82


@piece(TILT)
def tilt_gaussian(policy: PolicyView, by: Floats, max_kl: float) -> float:
    """The Gaussian with E_b[x] = −by: under it z has mean −by₀ and variance 1 − √2 by₁ − by₀², within limits.

    The "outputs" at θ_b then hold the mean and standard deviation of z and, behind them, the mean and scale of π_e.
    """
    n, b = policy.sizes.outputs, out_b(policy)
    e = shift(b, n)
    divergence = 0.0
    for i in range(policy.sizes.action_dim):
        e[2 * i] = gaussian_mean(policy.sizes, policy.out[2 * i])
        e[2 * i + 1] = gaussian_scale(policy.sizes, policy.out[2 * i + 1])
        mean = min(max(-by[2 * i], -FARTHEST_MEAN), FARTHEST_MEAN)
        variance = 1.0 - by[2 * i + 1] / SQRT_HALF - mean * mean
        variance = min(max(variance, LEAST_VARIANCE), MOST_VARIANCE)
        b[2 * i] = mean
        b[2 * i + 1] = math.sqrt(variance)
        if max_kl < math.inf:
            divergence += 0.5 * (variance + mean * mean - 1.0 - math.log(variance))
    return divergence


@piece(DRAW)
def draw_tilted_gaussian(policy: PolicyView, u: Floats, action: Floats) -> None:
    b, e = out_b(policy), shift(policy.out, 2 * policy.sizes.outputs)
    for i in range(policy.sizes.action_dim):
        action[i] = e[2 * i] + e[2 * i + 1] * (b[2 * i] + b[2 * i + 1] * normal_quantile(u[i]))


@piece(LOG_PROB)
def log_tilted_gaussian(policy: PolicyView, out: Floats, action: Floats) -> float:
    e, total = shift(policy.out, 2 * policy.sizes.outputs), 0.0
    for i in range(policy.sizes.action_dim):
        z = ((action[i] - e[2 * i]) / e[2 * i + 1] - out[2 * i]) / out[2 * i + 1]
        total -= 0.5 * z * z + math.log(e[2 * i + 1] * out[2 * i + 1]) + LOG_SQRT_2PI
    return total


@piece(SCORES)
def scores_gaussian(policy: PolicyView, action: Floats, x: Floats) -> None:
    e = shift(policy.out, 2 * policy.sizes.outputs)
    for i in range(policy.sizes.action_dim):
        z = (action[i] - e[2 * i]) / e[2 * i + 1]
        x[2 * i] = z
        x[2 * i + 1] = (z * z - 1.0) * SQRT_HALF


@piece(DRIFT)
def drift_gaussian(policy: PolicyView, x: Floats) -> None:
    """The means of z and (z² − 1)/√2: m and (s² + m² − 1)/√2, where z has mean m and standard deviation s."""
    b = out_b(policy)
    for i in range(policy.sizes.action_dim):
        mean, scale = b[2 * i], b[2 * i + 1]
        x[2 * i] = mean
        x[2 * i + 1] = (scale * scale + mean * mean - 1.0) * SQRT_HALF


# ---- the pieces that a policy takes over from its head -------------------------------------------------------------

CATEGORICAL = {
    "draw": draw_categorical,
    "log_prob": log_prob_categorical,
    "soften": soften_categorical,
    "scores": scores_categorical,
    "tilt": tilt_categorical,
    "draw_tilted": draw_tilted_categorical,
    "log_tilted": log_tilted_categorical,
    "drift": drift_categorical,
}
GAUSSIAN = {
    "draw": draw_gaussian,
    "log_prob": log_prob_gaussian,
    "soften": soften_gaussian,
    "scores": scores_gaussian,
    "tilt": tilt_gaussian,
    "draw_tilted": draw_tilted_gaussian,
    "log_tilted": log_tilted_gaussian,
    "drift": drift_gaussian,
}
