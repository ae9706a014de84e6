"""Output distributions: from the network's (or table's) outputs to actions, log-probabilities and scores.

Categorical: outputs are logits. Gaussian: outputs come in pairs (mean, scale) before their link functions,
mean = tanh or identity, scale = softplus or exp; ``dims[7]`` and ``dims[8]`` tell which.
"""

from __future__ import annotations

import math

from numba import njit

from evenroll.kernel import DRAW, FUSED, LOG_PROB, SCORES, SOFTEN, TILT, Floats, Ints, PolicyView, out_b, piece, shift
from evenroll.numerics import SQRT_2PI, exp_negative, normal_quantile, sigmoid, softplus

LOG_SQRT_2PI = math.log(SQRT_2PI)

FARTHEST = 1000.0  # outputs at θ_b stay within this many units (or multiples) of those at θ_e, for Gaussian heads


@njit
def tame(policy: PolicyView) -> None:
    """A step so large that outputs at θ_b overflow leaves π_b = π_e; a Gaussian's outputs are kept in reach.

    Without it a huge α would draw an action of 10⁴⁵, and every number after it would be NaN.
    """
    n, e, b = policy.dims[0], policy.out, out_b(policy)
    sound = True
    for i in range(n):
        sound &= math.isfinite(b[i])
    for i in range(n):
        if not sound:
            b[i] = e[i]
        elif policy.dims[9] == 1:
            reach = FARTHEST * (1.0 + abs(e[i]))
            b[i] = min(max(b[i], e[i] - reach), e[i] + reach)


# ---- categorical -------------------------------------------------------------------------------------------


@njit
def softmax(n: int, logits: Floats, probabilities: Floats) -> None:
    """Subtracts the largest logit first: no step size overflows it."""
    top = logits[0]
    for i in range(1, n):
        top = max(top, logits[i])
    total = 0.0
    for i in range(n):
        probabilities[i] = exp_negative(logits[i] - top)
        total += probabilities[i]
    for i in range(n):
        probabilities[i] /= total


@piece(DRAW, fastmath=FUSED)
def draw_categorical(policy: PolicyView, u: Floats, action: Floats) -> None:
    """The number of cumulative weights at or below u·(their total)."""
    n = policy.dims[0]
    logits = out_b(policy)
    cumulative = shift(logits, n)
    top, other = logits[0], logits[n - 1]
    for i in range(1, (n + 1) // 2):  # from both ends: half the wait
        top, other = max(top, logits[i]), max(other, logits[n - 1 - i])
    top = max(top, other)
    total = 0.0
    for i in range(n):
        total += exp_negative(logits[i] - top)
        cumulative[i] = total
    threshold = u[0] * total
    a = 0
    for i in range(n - 1):
        a += cumulative[i] <= threshold
    action[0] = a


@piece(LOG_PROB)
def log_prob_categorical(policy: PolicyView, out: Floats, action: Floats) -> float:
    n = policy.dims[0]
    top = out[0]
    for i in range(1, n):
        top = max(top, out[i])
    total = 0.0
    for i in range(n):
        total += exp_negative(out[i] - top)
    return out[int(action[0])] - top - math.log(total)


@njit
def score_categorical(n: int, out: Floats, action: Floats, weight: float, d: Floats) -> None:
    """d = weight · (1{a} − π): the score with respect to the logits."""
    softmax(n, out, d)
    for i in range(n):
        d[i] *= -weight
    d[int(action[0])] += weight


@piece(SOFTEN)
def soften_categorical(policy: PolicyView, delta: float) -> None:
    """(1 − δ) π_e + δ / |A|."""
    n = policy.dims[0]
    mixed = out_b(policy)
    softmax(n, policy.out, mixed)
    for i in range(n):
        mixed[i] = math.log((1.0 - delta) * mixed[i] + delta / n)


@piece(SCORES)
def scores_categorical(policy: PolicyView, action: Floats, x: Floats) -> None:
    score_categorical(policy.dims[0], policy.out, action, 1.0, x)


LEAST_RATIO = 0.02  # a tilt leaves every action at least this share of its probability: weights π_e/π_b stay bounded


@piece(TILT)
def tilt_categorical(policy: PolicyView, by: Floats) -> float:
    """π_b(a) ∝ π_e(a) · max(1 − (by_a − Σ π_e by), LEAST_RATIO), as logits. Linear: E_b[x] = −Cov_e(x) by, however far."""
    n, e, b = policy.dims[0], policy.out, out_b(policy)
    pi = shift(b, n)
    softmax(n, e, pi)
    mean = 0.0
    for i in range(n):
        mean += pi[i] * by[i]
    total, divergence = 0.0, 0.0
    for i in range(n):
        ratio = max(1.0 - (by[i] - mean), LEAST_RATIO)
        log_ratio = math.log(ratio)
        b[i] = e[i] + log_ratio
        total += pi[i] * ratio
        divergence += pi[i] * ratio * log_ratio
    return max(divergence / total - math.log(total), 0.0)


# ---- Gaussian, independent dimensions ----------------------------------------------------------------------


@njit
def gaussian_mean(dims: Ints, raw: float) -> float:
    return math.tanh(raw) if dims[7] == 0 else raw


@njit
def gaussian_scale(dims: Ints, raw: float) -> float:
    return softplus(raw) if dims[8] == 0 else math.exp(raw)


@piece(DRAW)
def draw_gaussian(policy: PolicyView, u: Floats, action: Floats) -> None:
    """mean + scale · Φ⁻¹(u), one uniform number per dimension."""
    out = out_b(policy)
    for i in range(policy.dims[1]):
        mean, scale = gaussian_mean(policy.dims, out[2 * i]), gaussian_scale(policy.dims, out[2 * i + 1])
        action[i] = mean + scale * normal_quantile(u[i])


@piece(LOG_PROB)
def log_prob_gaussian(policy: PolicyView, out: Floats, action: Floats) -> float:
    total = 0.0
    for i in range(policy.dims[1]):
        mean, scale = gaussian_mean(policy.dims, out[2 * i]), gaussian_scale(policy.dims, out[2 * i + 1])
        z = (action[i] - mean) / scale
        total -= 0.5 * z * z + math.log(scale) + LOG_SQRT_2PI
    return total


@njit
def score_gaussian(dims: Ints, out: Floats, action: Floats, weight: float, d: Floats) -> None:
    """Score with respect to the outputs before the link functions."""
    for i in range(dims[1]):
        mean, scale = gaussian_mean(dims, out[2 * i]), gaussian_scale(dims, out[2 * i + 1])
        z = (action[i] - mean) / scale
        slope = 1.0 - mean * mean if dims[7] == 0 else 1.0
        d[2 * i] = weight * z / scale * slope
        if dims[8] == 0:
            d[2 * i + 1] = weight * (z * z - 1.0) / scale * sigmoid(out[2 * i + 1])
        else:
            d[2 * i + 1] = weight * (z * z - 1.0)


@piece(SOFTEN)
def soften_gaussian(policy: PolicyView, delta: float) -> None:
    """Same mean, σ_b = (1 + δ) σ_e, written back as outputs before the link functions."""
    wide = out_b(policy)
    for i in range(policy.dims[1]):
        wide[2 * i] = policy.out[2 * i]
        scale = (1.0 + delta) * gaussian_scale(policy.dims, policy.out[2 * i + 1])
        wide[2 * i + 1] = scale + math.log1p(-math.exp(-scale)) if policy.dims[8] == 0 else math.log(scale)


@piece(SCORES)
def scores_gaussian(policy: PolicyView, action: Floats, x: Floats) -> None:
    out = policy.out
    for i in range(policy.dims[1]):
        mean, scale = gaussian_mean(policy.dims, out[2 * i]), gaussian_scale(policy.dims, out[2 * i + 1])
        z = (action[i] - mean) / scale
        x[2 * i] = z
        x[2 * i + 1] = (z * z - 1.0) * SQRT_HALF


SQRT_HALF = math.sqrt(0.5)
FARTHEST_MEAN, LEAST_VARIANCE, MOST_VARIANCE = 1.0, 0.25, 2.0  # of z under a tilted Gaussian


@piece(TILT)
def tilt_gaussian(policy: PolicyView, by: Floats) -> float:
    """The Gaussian with E_b[x] = −by: z of mean −by₀ and variance 1 − √2 by₁ − by₀²; those two are left as "outputs"."""
    b = out_b(policy)
    divergence = 0.0
    for i in range(policy.dims[1]):
        mean = min(max(-by[2 * i], -FARTHEST_MEAN), FARTHEST_MEAN)
        variance = 1.0 - by[2 * i + 1] / SQRT_HALF - mean * mean
        variance = min(max(variance, LEAST_VARIANCE), MOST_VARIANCE)
        b[2 * i] = mean
        b[2 * i + 1] = math.sqrt(variance)
        divergence += 0.5 * (variance + mean * mean - 1.0 - math.log(variance))
    return divergence


@piece(DRAW)
def draw_tilted_gaussian(policy: PolicyView, u: Floats, action: Floats) -> None:
    b = out_b(policy)
    for i in range(policy.dims[1]):
        mean, scale = gaussian_mean(policy.dims, policy.out[2 * i]), gaussian_scale(policy.dims, policy.out[2 * i + 1])
        action[i] = mean + scale * (b[2 * i] + b[2 * i + 1] * normal_quantile(u[i]))


@piece(LOG_PROB)
def log_tilted_gaussian(policy: PolicyView, out: Floats, action: Floats) -> float:
    total = 0.0
    for i in range(policy.dims[1]):
        mean, scale = gaussian_mean(policy.dims, policy.out[2 * i]), gaussian_scale(policy.dims, policy.out[2 * i + 1])
        z = ((action[i] - mean) / scale - out[2 * i]) / out[2 * i + 1]
        total -= 0.5 * z * z + math.log(scale * out[2 * i + 1]) + LOG_SQRT_2PI
    return total
