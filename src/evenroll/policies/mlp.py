"""Feed-forward networks: optional input batch norm (eval mode) → hidden layers, ReLU or tanh → softmax or Gaussian.

Parameters lie flat in `theta`: norm weight, norm bias; per hidden layer W [in][out], b [out]; head W [out][in],
b [out]; log_std. Hidden weights are [in][out] so that inner loops run along contiguous outputs. θ_b = θ − c·v is
never built: W_b x = W x − c (V x), row by row, and inputs that are zero (inactive ReLUs) are skipped.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import njit

from evenroll.errors import PolicyError
from evenroll.kernel import ADD_SCORE, FORWARD, PREPARE, SUMS, Floats, Piece, PolicyView, Reals, piece, real, shift
from evenroll.policies.base import Policy
from evenroll.policies.heads import (
    draw_categorical,
    draw_gaussian,
    log_prob_categorical,
    log_prob_gaussian,
    score_categorical,
    score_gaussian,
    soften_categorical,
    soften_gaussian,
)

NORM_EPSILON = 1e-5
ACTIVATIONS, HEADS, MEANS, SCALES = ("relu", "tanh"), ("softmax", "gaussian"), ("tanh", "identity"), ("softplus", "log_std")


class MLP(Policy):
    """A network policy from its tensors, named and shaped as in the policy file.

    layers  list of (weight [out, in], bias [out]); head (weight, bias); norm (mean, var, weight, bias) or None.
    dtype   float32 is fast and the default; float64 agrees with a float64 reference action by action.
    """

    def __init__(
        self,
        layers: Sequence[tuple[Any, Any]],
        head_weight: Any,
        head_bias: Any,
        *,
        activation: str = "relu",
        head: str = "softmax",
        mean: str = "tanh",
        scale: str = "softplus",
        norm: tuple[Any, Any, Any, Any] | None = None,
        log_std: Any = None,
        dtype: Any = np.float32,
    ) -> None:
        for value, known, what in (
            (activation, ACTIVATIONS, "activation"), (head, HEADS, "head"), (mean, MEANS, "mean"), (scale, SCALES, "scale"),
        ):  # fmt: skip
            if value not in known:
                raise PolicyError(f"{what} must be one of {', '.join(known)}, not {value!r}")
        if head == "softmax":
            mean, scale = MEANS[0], SCALES[0]
        as_real = lambda x: np.ascontiguousarray(x, dtype=np.float64)  # noqa: E731
        self.activation, self.head, self.mean, self.scale = activation, head, mean, scale
        self.layers = [(as_real(w), as_real(b)) for w, b in layers]
        self.head_weight, self.head_bias = as_real(head_weight), as_real(head_bias)
        self.norm = None if norm is None else tuple(as_real(x) for x in norm)
        self.log_std = None if log_std is None else as_real(log_std)
        self._check()
        rows = len(self.head_bias)
        width = (self.layers[0][0] if self.layers else self.head_weight).shape[1]
        gaussian, own_scale = head == "gaussian", scale == "log_std" and head == "gaussian"
        n_out = 2 * rows if own_scale else rows
        self.obs_dim = width
        self.n_actions = None if gaussian else rows
        self.action_dim = n_out // 2 if gaussian else 1
        parts = [] if self.norm is None else [self.norm[2], self.norm[3]]
        for w, b in self.layers:
            parts += [w.T.ravel(), b]
        parts += [self.head_weight.ravel(), self.head_bias] + ([self.log_std] if own_scale else [])  # type: ignore[list-item]
        self.theta = np.concatenate(parts).astype(dtype)
        if self.norm is None:
            self.aux = np.zeros(1, dtype=dtype)
        else:
            self.aux = np.concatenate([self.norm[0], 1.0 / np.sqrt(self.norm[1] + NORM_EPSILON)]).astype(dtype)
        sizes = [len(b) for _, b in self.layers]
        self.dims = np.array(
            [n_out, self.action_dim, len(self.theta), width, len(sizes), ACTIVATIONS.index(activation),
             int(self.norm is not None), MEANS.index(mean), SCALES.index(scale), HEADS.index(head), *sizes],
            dtype=np.int64,
        )  # fmt: skip
        self.work_size = 3 * width + 2 * sum(sizes) + 2 * max([*sizes, width, n_out])

    def _check(self) -> None:
        tensors = [x for pair in self.layers for x in pair] + [self.head_weight, self.head_bias, *(self.norm or ())]
        if self.log_std is not None:
            tensors.append(self.log_std)
        if not all(np.isfinite(x).all() for x in tensors):
            raise PolicyError("a policy tensor holds a value that is not finite")
        width = None
        for i, (w, b) in enumerate([*self.layers, (self.head_weight, self.head_bias)]):
            name = "head" if i == len(self.layers) else f"layers.{i}"
            if w.ndim != 2 or b.shape != (w.shape[0],) or 0 in w.shape or (width is not None and w.shape[1] != width):
                expected = "[out, in]" if width is None else f"[out, {width}]"
                raise PolicyError(f"{name}: weight {list(w.shape)} and bias {list(b.shape)} do not fit ({expected}, [out])")
            width = w.shape[0]
        inputs = (self.layers[0][0] if self.layers else self.head_weight).shape[1]
        if self.norm is not None:
            if len(self.norm) != 4 or any(x.shape != (inputs,) for x in self.norm):
                raise PolicyError(f"norm.mean, .var, .weight and .bias must each have shape [{inputs}]")
            if (self.norm[1] < 0).any():
                raise PolicyError("norm.var holds a negative variance")
        rows = len(self.head_bias)
        if self.head == "softmax" and rows < 2:
            raise PolicyError("a softmax head needs at least 2 actions")
        if self.head == "gaussian" and self.scale == "softplus" and rows % 2:
            raise PolicyError("a softplus Gaussian head has rows mean₀, σ₀, mean₁, σ₁ …: an even number")
        if self.head == "gaussian" and self.scale == "log_std" and (self.log_std is None or self.log_std.shape != (rows,)):
            raise PolicyError(f"log_std must have shape [{rows}], one entry per action dimension")

    def astype(self, dtype: Any) -> MLP:
        """The same policy at another precision."""
        return MLP(
            self.layers, self.head_weight, self.head_bias, activation=self.activation, head=self.head, mean=self.mean,
            scale=self.scale, norm=self.norm, log_std=self.log_std, dtype=dtype,
        )  # fmt: skip

    def with_theta(self, theta: np.ndarray, norm_statistics: tuple[np.ndarray, np.ndarray] | None = None) -> MLP:
        """The same architecture with other flat parameters (training)."""
        theta = np.asarray(theta, dtype=np.float64)
        at = 0

        def take(*shape: int) -> np.ndarray:
            nonlocal at
            size = int(np.prod(shape))
            at += size
            return theta[at - size : at].reshape(shape)

        norm = None
        if self.norm is not None:
            statistics = norm_statistics or (self.norm[0], self.norm[1])
            norm = (*statistics, take(self.obs_dim), take(self.obs_dim))
        layers = [(take(w.shape[1], w.shape[0]).T, take(len(b))) for w, b in self.layers]
        head_weight, head_bias = take(*self.head_weight.shape), take(len(self.head_bias))
        log_std = take(len(self.log_std)) if self.log_std is not None and self.head == "gaussian" else None
        return MLP(
            layers, head_weight, head_bias, activation=self.activation, head=self.head, mean=self.mean,
            scale=self.scale, norm=norm, log_std=log_std, dtype=self.dtype,
        )  # fmt: skip

    def features(self, obs: np.ndarray) -> np.ndarray:
        """Last hidden activations for a batch of observations [n, obs_dim]: [n, features], float64."""
        x = np.asarray(obs, dtype=np.float64)
        if self.norm is not None:
            mean, var, weight, bias = self.norm
            x = (x - mean) / np.sqrt(var + NORM_EPSILON) * weight + bias
        for w, b in self.layers:
            x = x @ w.T + b
            x = np.maximum(x, 0.0) if self.activation == "relu" else np.tanh(x)
        return np.asarray(x)

    def pieces(self) -> dict[str, Piece]:
        gaussian = self.head == "gaussian"
        return {
            "forward": forward_mlp,
            "draw": draw_gaussian if gaussian else draw_categorical,
            "log_prob": log_prob_gaussian if gaussian else log_prob_categorical,
            "add_score": add_score_mlp,
            "prepare": prepare_mlp,
            "soften": soften_gaussian if gaussian else soften_categorical,
        }


@njit
def _head_size(policy: PolicyView) -> tuple[int, int]:
    """Rows of the head's matrix, and the distance of their outputs (2 where log_std sits in between)."""
    own_scale = policy.dims[9] == 1 and policy.dims[8] == 1
    return (policy.dims[1], 2) if own_scale else (policy.dims[0], 1)


@piece(FORWARD, fastmath=SUMS)
def forward_mlp(policy: PolicyView, vector: Reals, c: float, obs: Floats) -> None:
    dims, work = policy.dims, policy.work
    width, layers, is_tanh = dims[3], dims[4], dims[5] == 1
    both = c != 0.0
    step = real(c)
    zero = real(0.0)
    normed, x_e = work, shift(work, width)
    x_b = shift(x_e, width)
    W, V = policy.theta, vector
    if dims[6] == 1:
        for i in range(width):
            normed[i] = (real(obs[i]) - policy.aux[i]) * policy.aux[width + i]
            x_e[i] = W[i] * normed[i] + W[width + i]
        if both:
            for i in range(width):
                x_b[i] = x_e[i] - step * (V[i] * normed[i] + V[width + i])
        W, V = shift(W, 2 * width), shift(V, 2 * width)
    else:
        for i in range(width):
            x_e[i] = real(obs[i])
            x_b[i] = x_e[i]
    h_e = shift(x_b, width)
    active = policy.index
    for layer in range(layers):
        n = dims[10 + layer]
        h_b = shift(h_e, n)
        bias, bias_v = shift(W, width * n), shift(V, width * n)
        count = 0
        if both:
            for o in range(n):
                h_e[o] = bias[o]
                h_b[o] = bias[o] - step * bias_v[o]
            for j in range(width):
                active[count] = j
                count += (x_e[j] != zero) | (x_b[j] != zero)
            done = count - count % 4
            for block in range(0, done, 4):
                j0, j1, j2, j3 = active[block], active[block + 1], active[block + 2], active[block + 3]
                w0, w1, w2, w3 = shift(W, j0 * n), shift(W, j1 * n), shift(W, j2 * n), shift(W, j3 * n)
                v0, v1, v2, v3 = shift(V, j0 * n), shift(V, j1 * n), shift(V, j2 * n), shift(V, j3 * n)
                e0, e1, e2, e3 = x_e[j0], x_e[j1], x_e[j2], x_e[j3]
                b0, b1, b2, b3 = x_b[j0], x_b[j1], x_b[j2], x_b[j3]
                s0, s1, s2, s3 = step * b0, step * b1, step * b2, step * b3
                for o in range(n):
                    h_e[o] += e0 * w0[o] + e1 * w1[o] + e2 * w2[o] + e3 * w3[o]
                    h_b[o] += (b0 * w0[o] + b1 * w1[o] + b2 * w2[o] + b3 * w3[o]) - (
                        s0 * v0[o] + s1 * v1[o] + s2 * v2[o] + s3 * v3[o]
                    )
            for block in range(done, count):
                j = active[block]
                w0, v0 = shift(W, j * n), shift(V, j * n)
                e0, b0 = x_e[j], x_b[j]
                s0 = step * b0
                for o in range(n):
                    h_e[o] += e0 * w0[o]
                    h_b[o] += b0 * w0[o] - s0 * v0[o]
        else:
            for o in range(n):
                h_e[o] = bias[o]
            for j in range(width):
                active[count] = j
                count += x_e[j] != zero
            done = count - count % 4
            for block in range(0, done, 4):
                j0, j1, j2, j3 = active[block], active[block + 1], active[block + 2], active[block + 3]
                w0, w1, w2, w3 = shift(W, j0 * n), shift(W, j1 * n), shift(W, j2 * n), shift(W, j3 * n)
                e0, e1, e2, e3 = x_e[j0], x_e[j1], x_e[j2], x_e[j3]
                for o in range(n):
                    h_e[o] += e0 * w0[o] + e1 * w1[o] + e2 * w2[o] + e3 * w3[o]
            for block in range(done, count):
                j = active[block]
                w0, e0 = shift(W, j * n), x_e[j]
                for o in range(n):
                    h_e[o] += e0 * w0[o]
        if is_tanh:
            for o in range(n):
                h_e[o] = math.tanh(h_e[o])
            if both:
                for o in range(n):
                    h_b[o] = math.tanh(h_b[o])
        else:
            for o in range(n):
                h_e[o] = max(h_e[o], zero)
            if both:
                for o in range(n):
                    h_b[o] = max(h_b[o], zero)
        x_e, x_b, h_e = h_e, h_b, shift(h_b, n)
        W, V = shift(bias, n), shift(bias_v, n)
        width = n
    n_out = dims[0]
    rows, stride = _head_size(policy)
    out, behavior = policy.out, shift(policy.out, n_out)
    bias, bias_v = shift(W, rows * width), shift(V, rows * width)
    for r in range(rows):
        w, v = shift(W, r * width), shift(V, r * width)
        total = 0.0
        for o in range(width):
            total += float(x_e[o]) * float(w[o])
        out[r * stride] = total + bias[r]
        if both:
            total = 0.0
            moved = 0.0
            for o in range(width):
                total += float(x_b[o]) * float(w[o])
                moved += float(x_b[o]) * float(v[o])
            behavior[r * stride] = (total + bias[r]) - c * (moved + bias_v[r])
    if stride == 2:
        log_std, log_std_v = shift(bias, rows), shift(bias_v, rows)
        for r in range(rows):
            out[2 * r + 1] = log_std[r]
            if both:
                behavior[2 * r + 1] = log_std[r] - c * log_std_v[r]
    if not both:
        for r in range(n_out):
            behavior[r] = out[r]


@piece(ADD_SCORE, fastmath=SUMS)
def add_score_mlp(policy: PolicyView, obs: Floats, action: Floats, weight: float, vector: Reals) -> None:
    """Backward pass from the activations at θ that forward left in `work`."""
    dims, work = policy.dims, policy.work
    n_out, width, layers, is_tanh, has_norm = dims[0], dims[3], dims[4], dims[5] == 1, dims[6] == 1
    zero, one = real(0.0), real(1.0)
    d_out = shift(policy.out, 2 * n_out)
    if dims[9] == 1:
        score_gaussian(dims, policy.out, action, weight, d_out)
    else:
        score_categorical(n_out, policy.out, action, weight, d_out)
    # Walk to the last layer: where its inputs, weights and activations lie.
    at_w = 2 * width if has_norm else 0
    at_h = width  # x_e
    next_h = 3 * width
    inputs = width
    for layer in range(layers):
        n = dims[10 + layer]
        at_w += inputs * n + n
        at_h = next_h
        next_h += 2 * n
        inputs = n
    largest = max(inputs, width)
    for layer in range(layers):
        largest = max(largest, dims[10 + layer])
    d, d_next = shift(work, next_h), shift(work, next_h + largest)
    # Head.
    rows, stride = _head_size(policy)
    W, V, h = shift(policy.theta, at_w), shift(vector, at_w), shift(work, at_h)
    for o in range(inputs):
        d[o] = zero
    for r in range(rows):
        g = real(d_out[r * stride])
        w, v = shift(W, r * inputs), shift(V, r * inputs)
        for o in range(inputs):
            v[o] += g * h[o]
            d[o] += g * w[o]
        V[rows * inputs + r] += g
    if stride == 2:
        for r in range(rows):
            V[rows * inputs + rows + r] += real(d_out[2 * r + 1])
    # Hidden layers, last to first.
    for back in range(layers):
        layer = layers - 1 - back
        n = dims[10 + layer]
        if is_tanh:
            for o in range(n):
                d[o] *= one - h[o] * h[o]
        else:
            for o in range(n):
                d[o] = d[o] if h[o] > zero else zero
        inputs = width if layer == 0 else dims[10 + layer - 1]
        at_w -= inputs * n + n
        at_h = width if layer == 0 else at_h - 2 * inputs
        W, V, h = shift(policy.theta, at_w), shift(vector, at_w), shift(work, at_h)
        bias_v = shift(V, inputs * n)
        for o in range(n):
            bias_v[o] += d[o]
        for j in range(inputs):
            x = h[j]
            if x == zero and layer > 0 and not is_tanh:
                d_next[j] = zero
                continue
            w, v = shift(W, j * n), shift(V, j * n)
            total = zero
            for o in range(n):
                total += w[o] * d[o]
                v[o] += x * d[o]
            d_next[j] = total
        d, d_next = d_next, d
    if has_norm:
        for i in range(width):
            vector[i] += d[i] * work[i]
            vector[width + i] += d[i]


@piece(PREPARE)
def prepare_mlp(policy: PolicyView) -> None:
    """Nothing follows from θ: batch-norm statistics stay fixed."""
