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
from evenroll.kernel import ADD_SCORE, FORWARD, PREPARE, Floats, Ints, Piece, PolicyView, Reals, piece, real, shift
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
from evenroll.simd import add, fma, lanes_of, load, load_wide, narrow, relu, splat, store, total, where_positive

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


@njit
def _layer(count: int, active: Ints, inputs: int, n: int, lanes: int, x: Reals, W: Reals, h: Reals) -> None:
    """h = b + Σ_j x_j W[j, :] over the listed inputs; the bias follows W."""
    wide = 4 * lanes
    bias = inputs * n
    whole, blocks = n - n % wide, n - n % lanes
    for o in range(0, whole, wide):
        w = shift(W, o)
        a0, a1 = load(w, bias), load(w, bias + lanes)
        a2, a3 = load(w, bias + 2 * lanes), load(w, bias + 3 * lanes)
        for i in range(count):
            j = active[i]
            at, x_j = j * n, splat(x[j])
            a0, a1 = fma(x_j, load(w, at), a0), fma(x_j, load(w, at + lanes), a1)
            a2, a3 = fma(x_j, load(w, at + 2 * lanes), a2), fma(x_j, load(w, at + 3 * lanes), a3)
        store(h, o, a0)
        store(h, o + lanes, a1)
        store(h, o + 2 * lanes, a2)
        store(h, o + 3 * lanes, a3)
    for o in range(whole, blocks, lanes):
        w = shift(W, o)
        a0 = load(w, bias)
        for i in range(count):
            j = active[i]
            a0 = fma(splat(x[j]), load(w, j * n), a0)
        store(h, o, a0)
    for o in range(blocks, n):
        value = W[bias + o]
        for i in range(count):
            j = active[i]
            value += x[j] * W[j * n + o]
        h[o] = value


@njit
def _layer_both(
    count: int, active: Ints, inputs: int, n: int, lanes: int, step: float, x_e: Reals, x_b: Reals, W: Reals, V: Reals,
    h_e: Reals, h_b: Reals,
) -> None:  # fmt: skip
    """The same at θ and at θ − step·v together: each weight is loaded once."""
    wide = 2 * lanes
    bias = inputs * n
    whole, blocks = n - n % wide, n - n % lanes
    minus = splat(-step)
    for o in range(0, whole, wide):
        w, v = shift(W, o), shift(V, o)
        e0, e1 = load(w, bias), load(w, bias + lanes)
        b0, b1 = fma(minus, load(v, bias), e0), fma(minus, load(v, bias + lanes), e1)
        for i in range(count):
            j = active[i]
            at, e, b = j * n, splat(x_e[j]), splat(x_b[j])
            w0, w1 = load(w, at), load(w, at + lanes)
            e0, e1 = fma(e, w0, e0), fma(e, w1, e1)
            b0 = fma(b, fma(minus, load(v, at), w0), b0)
            b1 = fma(b, fma(minus, load(v, at + lanes), w1), b1)
        store(h_e, o, e0)
        store(h_e, o + lanes, e1)
        store(h_b, o, b0)
        store(h_b, o + lanes, b1)
    for o in range(whole, blocks, lanes):
        w, v = shift(W, o), shift(V, o)
        e0 = load(w, bias)
        b0 = fma(minus, load(v, bias), e0)
        for i in range(count):
            j = active[i]
            w0 = load(w, j * n)
            e0 = fma(splat(x_e[j]), w0, e0)
            b0 = fma(splat(x_b[j]), fma(minus, load(v, j * n), w0), b0)
        store(h_e, o, e0)
        store(h_b, o, b0)
    for o in range(blocks, n):
        at_e = W[bias + o]
        at_b = at_e - step * V[bias + o]
        for i in range(count):
            j = active[i]
            at_e += x_e[j] * W[j * n + o]
            at_b += x_b[j] * (W[j * n + o] - step * V[j * n + o])
        h_e[o] = at_e
        h_b[o] = at_b


@njit
def _activate(n: int, lanes: int, is_tanh: bool, h: Reals) -> None:
    if is_tanh:
        for o in range(n):
            h[o] = math.tanh(h[o])
        return
    blocks = n - n % lanes
    for o in range(0, blocks, lanes):
        store(h, o, relu(load(h, o)))
    for o in range(blocks, n):
        h[o] = max(h[o], h[o] - h[o])


@njit
def _dot(n: int, x: Reals, w: Reals) -> float:
    """Σ x w in double precision."""
    blocks = n - n % 8
    a0, a1 = splat(0.0), splat(0.0)
    for o in range(0, blocks, 8):
        a0 = fma(load_wide(x, o), load_wide(w, o), a0)
        a1 = fma(load_wide(x, o + 4), load_wide(w, o + 4), a1)
    value = total(a0) + total(a1)
    for o in range(blocks, n):
        value += float(x[o]) * float(w[o])
    return value  # type: ignore[no-any-return]


@piece(FORWARD)
def forward_mlp(policy: PolicyView, vector: Reals, c: float, obs: Floats) -> None:
    dims, work = policy.dims, policy.work
    width, layers, is_tanh = dims[3], dims[4], dims[5] == 1
    both = c != 0.0
    step, zero = real(c), real(0.0)
    lanes = lanes_of(real)
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
    index = policy.index
    for layer in range(layers):
        n = dims[10 + layer]
        h_b = shift(h_e, n)
        active = shift(index, 1)  # inputs to visit; their number goes in front, for the backward pass
        count = 0
        every = is_tanh or layer == 0  # only a ReLU that is zero can be left out
        if both:
            for j in range(width):
                active[count] = j
                count += every | (x_e[j] != zero) | (x_b[j] != zero)
            _layer_both(count, active, width, n, lanes, step, x_e, x_b, W, V, h_e, h_b)
            _activate(n, lanes, is_tanh, h_b)
        else:
            for j in range(width):
                active[count] = j
                count += every | (x_e[j] != zero)
            _layer(count, active, width, n, lanes, x_e, W, h_e)
        _activate(n, lanes, is_tanh, h_e)
        x_e, x_b, h_e = h_e, h_b, shift(h_b, n)
        W, V = shift(W, (width + 1) * n), shift(V, (width + 1) * n)
        index[0] = count
        index = shift(index, width + 1)
        width = n
    n_out = dims[0]
    rows, stride = _head_size(policy)
    out, behavior = policy.out, shift(policy.out, n_out)
    bias, bias_v = shift(W, rows * width), shift(V, rows * width)
    for r in range(rows):
        w, v = shift(W, r * width), shift(V, r * width)
        out[r * stride] = _dot(width, x_e, w) + bias[r]
        if both:
            behavior[r * stride] = (_dot(width, x_b, w) + bias[r]) - c * (_dot(width, x_b, v) + bias_v[r])
    if stride == 2:
        log_std, log_std_v = shift(bias, rows), shift(bias_v, rows)
        for r in range(rows):
            out[2 * r + 1] = log_std[r]
            if both:
                behavior[2 * r + 1] = log_std[r] - c * log_std_v[r]
    if not both:
        for r in range(n_out):
            behavior[r] = out[r]


@njit
def _back(count: int, active: Ints, n: int, lanes: int, x: Reals, d: Reals, W: Reals, V: Reals, d_in: Reals) -> None:
    """For the listed inputs: V[j, :] += x_j d and d_in_j = W[j, :]·d, four rows at a time."""
    blocks = n - n % lanes
    fours = count - count % 4
    for i in range(0, fours, 4):
        j0, j1, j2, j3 = active[i], active[i + 1], active[i + 2], active[i + 3]
        w0, w1, w2, w3 = shift(W, j0 * n), shift(W, j1 * n), shift(W, j2 * n), shift(W, j3 * n)
        v0, v1, v2, v3 = shift(V, j0 * n), shift(V, j1 * n), shift(V, j2 * n), shift(V, j3 * n)
        x0, x1, x2, x3 = splat(x[j0]), splat(x[j1]), splat(x[j2]), splat(x[j3])
        none = splat(x[j0] - x[j0])
        s0, s1, s2, s3 = none, none, none, none
        for o in range(0, blocks, lanes):
            g = load(d, o)
            s0, s1 = fma(g, load(w0, o), s0), fma(g, load(w1, o), s1)
            s2, s3 = fma(g, load(w2, o), s2), fma(g, load(w3, o), s3)
            store(v0, o, fma(x0, g, load(v0, o)))
            store(v1, o, fma(x1, g, load(v1, o)))
            store(v2, o, fma(x2, g, load(v2, o)))
            store(v3, o, fma(x3, g, load(v3, o)))
        d_in[j0], d_in[j1], d_in[j2], d_in[j3] = total(s0), total(s1), total(s2), total(s3)
    for i in range(fours, count):
        j = active[i]
        w0, v0 = shift(W, j * n), shift(V, j * n)
        x0 = splat(x[j])
        s0 = splat(x[j] - x[j])
        for o in range(0, blocks, lanes):
            g = load(d, o)
            s0 = fma(g, load(w0, o), s0)
            store(v0, o, fma(x0, g, load(v0, o)))
        d_in[j] = total(s0)
    if blocks < n:
        for i in range(count):
            j = active[i]
            for o in range(blocks, n):
                d_in[j] += W[j * n + o] * d[o]
                V[j * n + o] += x[j] * d[o]


@njit
def _back_head(rows: int, stride: int, n: int, lanes: int, h: Reals, g: Floats, W: Reals, V: Reals, d: Reals) -> None:
    """V[r, :] += g_r h and d = Σ_r g_r W[r, :]."""
    blocks = n - n % lanes
    for o in range(n):
        d[o] = h[o] - h[o]
    for r in range(rows):
        w, v = shift(W, r * n), shift(V, r * n)
        g_r = narrow(g[r * stride], h)
        g_all = splat(g_r)
        for o in range(0, blocks, lanes):
            store(v, o, fma(g_all, load(h, o), load(v, o)))
            store(d, o, fma(g_all, load(w, o), load(d, o)))
        for o in range(blocks, n):
            v[o] += g_r * h[o]
            d[o] += g_r * w[o]
        V[rows * n + r] += g_r


@njit
def _back_activation(n: int, lanes: int, is_tanh: bool, h: Reals, d: Reals, bias_v: Reals) -> None:
    """d ← d · activation′, read off the activation itself; the bias's gradient."""
    blocks = 0
    if not is_tanh:
        blocks = n - n % lanes
        for o in range(0, blocks, lanes):
            g = where_positive(load(h, o), load(d, o))
            store(d, o, g)
            store(bias_v, o, add(g, load(bias_v, o)))
    for o in range(blocks, n):
        if is_tanh:
            d[o] -= d[o] * h[o] * h[o]
        elif not h[o] > 0:
            d[o] = h[o] - h[o]
        bias_v[o] += d[o]


@piece(ADD_SCORE)
def add_score_mlp(policy: PolicyView, obs: Floats, action: Floats, weight: float, vector: Reals) -> None:
    """Backward pass from the activations at θ, and the lists of inputs not zero, that forward left behind."""
    dims, work = policy.dims, policy.work
    n_out, width, layers, is_tanh, has_norm = dims[0], dims[3], dims[4], dims[5] == 1, dims[6] == 1
    lanes = lanes_of(real)
    d_out = shift(policy.out, 2 * n_out)
    if dims[9] == 1:
        score_gaussian(dims, policy.out, action, weight, d_out)
    else:
        score_categorical(n_out, policy.out, action, weight, d_out)
    # Walk to the last layer: where its inputs, weights and activations lie.
    at_w = 2 * width if has_norm else 0
    at_h = width  # x_e
    next_h, at_index, inputs, largest = 3 * width, 0, width, width
    for layer in range(layers):
        n = dims[10 + layer]
        at_w += inputs * n + n
        at_h = next_h
        next_h += 2 * n
        at_index += inputs + 1
        inputs = n
        largest = max(largest, n)
    d, d_next = shift(work, next_h), shift(work, next_h + largest)
    rows, stride = _head_size(policy)
    W, V, h = shift(policy.theta, at_w), shift(vector, at_w), shift(work, at_h)
    _back_head(rows, stride, inputs, lanes, h, d_out, W, V, d)
    if stride == 2:
        for r in range(rows):
            V[rows * inputs + rows + r] += real(d_out[2 * r + 1])
    for back in range(layers):
        layer = layers - 1 - back
        n = dims[10 + layer]
        inputs = width if layer == 0 else dims[10 + layer - 1]
        at_w -= inputs * n + n
        at_h = width if layer == 0 else at_h - 2 * inputs
        at_index -= inputs + 1
        W, V = shift(policy.theta, at_w), shift(vector, at_w)
        _back_activation(n, lanes, is_tanh, h, d, shift(V, inputs * n))
        h = shift(work, at_h)
        active = shift(policy.index, at_index)
        for j in range(inputs):
            d_next[j] = real(0.0)
        # Inputs left out are inactive ReLUs: their weights get no gradient, and they pass nothing on.
        _back(active[0], shift(active, 1), n, lanes, h, d, W, V, d_next)
        d, d_next = d_next, d
    if has_norm:
        for i in range(width):
            vector[i] += d[i] * work[i]
            vector[width + i] += d[i]


@piece(PREPARE)
def prepare_mlp(policy: PolicyView) -> None:
    """Nothing follows from θ: batch-norm statistics stay fixed."""
