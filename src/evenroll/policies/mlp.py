"""Feed-forward networks: optional input batch norm (eval mode) → hidden layers, ReLU or tanh → softmax or Gaussian.

Parameters lie flat in `theta`: norm weight, norm bias; per hidden layer W [in][out], b [out]; head W [out][in],
b [out]; log_std. Hidden weights are [in][out] so that inner loops run along contiguous outputs. θ_b = θ − c·v is
never built: W_b x = W x − c (V x), row by row, and inputs that are zero (inactive ReLUs) are skipped.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import njit

from evenroll.errors import PolicyError
from evenroll.kernel import (
    ADD_SCORE,
    FEATURES,
    FORWARD,
    PREPARE,
    Floats,
    Ints,
    Piece,
    PolicyView,
    Reals,
    compiled,
    features,
    forward,
    number_type,
    piece,
    pointer,
    policy_arrays,
    policy_of,
    real,
    shift,
)
from evenroll.policies.base import Policy
from evenroll.policies.heads import (
    draw_categorical,
    draw_gaussian,
    draw_tilted_categorical,
    draw_tilted_gaussian,
    log_prob_categorical,
    log_prob_gaussian,
    log_tilted_categorical,
    log_tilted_gaussian,
    score_categorical,
    score_gaussian,
    scores_categorical,
    scores_gaussian,
    soften_categorical,
    soften_gaussian,
    tame,
    tilt_categorical,
    tilt_gaussian,
)
from evenroll.simd import (
    add,
    aligned,
    dot,
    fma,
    lanes_of,
    list_positive,
    load,
    multiply,
    narrow,
    over_columns,
    relu,
    splat,
    store,
    unit_step,
)

NORM_EPSILON = 1e-5
ACTIVATIONS, HEADS, MEANS, SCALES = ("relu", "tanh"), ("softmax", "gaussian"), ("tanh", "identity"), ("softplus", "log_std")


def _as_real(x: Any) -> np.ndarray:
    return np.ascontiguousarray(x, dtype=np.float64)


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
        norm: tuple[Any, ...] | None = None,
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
        self.activation, self.head, self.mean, self.scale = activation, head, mean, scale
        self.layers = [(_as_real(w), _as_real(b)) for w, b in layers]
        self.head_weight, self.head_bias = _as_real(head_weight), _as_real(head_bias)
        self.norm = None if norm is None else tuple(_as_real(x) for x in norm)
        self.log_std = None if log_std is None else _as_real(log_std)
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
        self.first_weight = 0 if self.norm is None else 2 * width
        self.theta = aligned(np.concatenate(parts).astype(dtype), self.first_weight)
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

    @property
    def feature_width(self) -> int:
        return self.head_weight.shape[1] + 1

    def features(self, observations: np.ndarray) -> np.ndarray:
        """ψ [N, F + 1], in `dtype`: what the outputs are linear in at observations [N, obs_dim], the constant 1 last."""
        observations = np.ascontiguousarray(observations, dtype=np.float64)
        psi = np.empty((len(observations), self.head_weight.shape[1] + 1), self.dtype)
        _list_features(number_type(self.dtype))(self.arrays(), observations, psi)
        return psi

    def parameters_of_actions(self, obs: np.ndarray) -> np.ndarray:
        """For a batch of observations [n, obs_dim]: logits, or mean and log scale of each dimension in turn."""
        out = self.features(obs).astype(np.float64)[:, :-1] @ self.head_weight.T + self.head_bias
        if self.n_actions is not None:
            return np.asarray(out)
        if self.log_std is not None and self.scale == "log_std":
            mean, log_scale = out, np.broadcast_to(self.log_std, out.shape)
        else:
            mean, log_scale = out[:, 0::2], np.log(np.maximum(np.logaddexp(0.0, out[:, 1::2]), 1e-6))
        mean = np.tanh(mean) if self.mean == "tanh" else mean
        return np.stack([mean, log_scale], axis=-1).reshape(len(out), -1)

    def pieces(self) -> dict[str, Piece]:
        gaussian = self.head == "gaussian"
        return {
            "forward": forward_mlp,
            "draw": draw_gaussian if gaussian else draw_categorical,
            "log_prob": log_prob_gaussian if gaussian else log_prob_categorical,
            "add_score": add_score_mlp,
            "prepare": prepare_mlp,
            "soften": soften_gaussian if gaussian else soften_categorical,
            "features": features_mlp,
            "scores": scores_gaussian if gaussian else scores_categorical,
            "tilt": tilt_gaussian if gaussian else tilt_categorical,
            "draw_tilted": draw_tilted_gaussian if gaussian else draw_tilted_categorical,
            "log_tilted": log_tilted_gaussian if gaussian else log_tilted_categorical,
        }


@njit
def _head_size(policy: PolicyView) -> tuple[int, int]:
    """Rows of the head's matrix, and the distance of their outputs (2 where log_std sits in between)."""
    own_scale = policy.dims[9] == 1 and policy.dims[8] == 1
    return (policy.dims[1], 2) if own_scale else (policy.dims[0], 1)


@over_columns(8)
def _layer(size: int) -> Any:
    """h = b + Σ_j x_j W[j, :] over the listed inputs j, or the positive part of it; the bias follows W."""

    def columns(
        o: int, n: int, bias: int, is_relu: bool, count: int, active: Ints, x: Reals, W: Reals, h: Reals
    ) -> None:  # fmt: skip
        w = shift(W, o)
        sums = load(w, bias, size)
        for i in range(count):
            j = active[i]
            sums = fma(splat(x[j], size), load(w, j * n, size), sums)
        store(h, o, relu(sums) if is_relu else sums)

    return columns


@over_columns(4)
def _layer_both(size: int) -> Any:
    """The same at θ and at θ − step·v together: each weight is loaded once."""

    def columns(
        o: int, n: int, bias: int, is_relu: bool, count: int, active: Ints, step: float, x_e: Reals, x_b: Reals,
        W: Reals, V: Reals, h_e: Reals, h_b: Reals,
    ) -> None:  # fmt: skip
        w, v, minus = shift(W, o), shift(V, o), splat(-step, size)
        sums_e = load(w, bias, size)
        sums_b = fma(minus, load(v, bias, size), sums_e)
        for i in range(count):
            j = active[i]
            weights = load(w, j * n, size)
            sums_e = fma(splat(x_e[j], size), weights, sums_e)
            sums_b = fma(splat(x_b[j], size), fma(minus, load(v, j * n, size), weights), sums_b)
        store(h_e, o, relu(sums_e) if is_relu else sums_e)
        store(h_b, o, relu(sums_b) if is_relu else sums_b)

    return columns


@njit(forceinline=True)
def _list_positive(n: int, lanes: int, h_e: Reals, h_b: Reals, active: Ints) -> int:
    """Where either is positive."""
    count, registers = 0, n - n % lanes
    for o in range(0, registers, lanes):
        count = list_positive(load(h_e, o, 1), load(h_b, o, 1), o, active, count)
    for o in range(registers, n):
        count = list_positive(load(h_e, o, 0), load(h_b, o, 0), o, active, count)
    return count


@njit(forceinline=True)
def _list_all(n: int, active: Ints) -> int:
    for j in range(n):
        active[j] = j
    return n


@over_columns(8)
def _dot(size: int) -> Any:
    """result += Σ x w."""

    def columns(o: int, x: Reals, w: Reals, result: Floats) -> None:
        result[0] += dot(load(x, o, size), load(w, o, size))

    return columns


@piece(FORWARD)
def forward_mlp(policy: PolicyView, vector: Reals, c: float, obs: Floats) -> None:
    dims, work = policy.dims, policy.work
    width, layers, is_tanh = dims[3], dims[4], dims[5] == 1
    both = c != 0.0
    step = real(c)
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
    # Per layer: how many inputs to visit, and which (only a ReLU that is zero is left out); backward uses it too.
    index = policy.index
    index[0] = _list_all(width, shift(index, 1))
    for layer in range(layers):
        n = dims[10 + layer]
        h_b = shift(h_e, n)
        count, active, bias = index[0], shift(index, 1), width * n
        if both:
            _layer_both(n, lanes, n, bias, not is_tanh, count, active, step, x_e, x_b, W, V, h_e, h_b)
        else:
            _layer(n, lanes, n, bias, not is_tanh, count, active, x_e, W, h_e)
        index = shift(index, width + 1)
        if is_tanh:
            for o in range(n):
                h_e[o] = math.tanh(h_e[o])
                if both:
                    h_b[o] = math.tanh(h_b[o])
            index[0] = _list_all(n, shift(index, 1))
        else:
            index[0] = _list_positive(n, lanes, h_e, h_b if both else h_e, shift(index, 1))
        x_e, x_b, h_e = h_e, h_b, shift(h_b, n)
        W, V = shift(W, bias + n), shift(V, bias + n)
        width = n
    n_out = dims[0]
    rows, stride = _head_size(policy)
    out, behavior, scratch = policy.out, shift(policy.out, n_out), shift(policy.out, 2 * n_out)
    bias_e, bias_v = shift(W, rows * width), shift(V, rows * width)
    for r in range(rows):
        w, v = shift(W, r * width), shift(V, r * width)
        out[r * stride] = bias_e[r]
        _dot(width, lanes, x_e, w, shift(out, r * stride))
        if both:
            behavior[r * stride], scratch[0] = bias_e[r], bias_v[r]
            _dot(width, lanes, x_b, w, shift(behavior, r * stride))
            _dot(width, lanes, x_b, v, scratch)
            behavior[r * stride] -= c * scratch[0]
    if stride == 2:
        log_std, log_std_v = shift(bias_e, rows), shift(bias_v, rows)
        for r in range(rows):
            out[2 * r + 1] = log_std[r]
            if both:
                behavior[2 * r + 1] = log_std[r] - c * log_std_v[r]
    if both:
        tame(policy)
    else:
        for r in range(n_out):
            behavior[r] = out[r]


@over_columns(8)
def _back(size: int) -> Any:
    """For the listed inputs j: V[j, :] += x_j d and d_in_j += W[j, :]·d."""

    def columns(o: int, n: int, count: int, active: Ints, x: Reals, d: Reals, W: Reals, V: Reals, d_in: Reals) -> None:
        g = load(d, o, size)
        for i in range(count):
            j = active[i]
            at = j * n + o
            d_in[j] += dot(g, load(W, at, size))
            store(V, at, fma(splat(x[j], size), g, load(V, at, size)))

    return columns


@over_columns(4)
def _back_head(size: int) -> Any:
    """V[r, :] += g_r h and d = Σ_r g_r W[r, :]."""

    def columns(o: int, n: int, rows: int, stride: int, h: Reals, g: Floats, W: Reals, V: Reals, d: Reals) -> None:
        x, sums = load(h, o, size), splat(narrow(0.0, h), size)
        for r in range(rows):
            g_r, at = splat(narrow(g[r * stride], h), size), r * n + o
            sums = fma(g_r, load(W, at, size), sums)
            store(V, at, fma(g_r, x, load(V, at, size)))
        store(d, o, sums)

    return columns


@over_columns(4)
def _back_activation(size: int) -> Any:
    """d ← d · activation′, read off the activation itself; the bias's gradient."""

    def columns(o: int, is_tanh: bool, h: Reals, d: Reals, bias_v: Reals) -> None:
        x, g = load(h, o, size), load(d, o, size)
        one = splat(narrow(1.0, h), size)
        g = multiply(g, fma(multiply(x, splat(narrow(-1.0, h), size)), x, one) if is_tanh else unit_step(x))
        store(d, o, g)
        store(bias_v, o, add(g, load(bias_v, o, size)))

    return columns


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
    _back_head(inputs, lanes, inputs, rows, stride, h, d_out, W, V, d)
    for r in range(rows):
        V[rows * inputs + r] += real(d_out[r * stride])
        if stride == 2:
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
        _back(n, lanes, n, active[0], shift(active, 1), h, d, W, V, d_next)
        d, d_next = d_next, d
    if has_norm:
        for i in range(width):
            vector[i] += d[i] * work[i]
            vector[width + i] += d[i]


@piece(FEATURES)
def features_mlp(policy: PolicyView, weight: float, psi: Reals) -> None:
    """[last hidden activations, 1]; without hidden layers, the input."""
    dims = policy.dims
    width, at = dims[3], dims[3]
    next_h = 3 * width
    for layer in range(dims[4]):
        width, at = dims[10 + layer], next_h
        next_h += 2 * width
    h, factor = shift(policy.work, at), real(weight)
    for i in range(width):
        psi[i] = factor * h[i]
    psi[width] = factor


@piece(PREPARE)
def prepare_mlp(policy: PolicyView) -> None:
    """Nothing follows from θ: batch-norm statistics stay fixed."""


@functools.cache
def _list_features(number: Any) -> Any:
    from numba import float64, void

    return compiled(_list_features_kernel, void(policy_arrays(number), float64[:, ::1], number[:, ::1]))


def _list_features_kernel(arrays: Any, observations: Any, psi: Any) -> None:
    policy = policy_of(arrays)
    for t in range(len(psi)):
        forward(policy, policy.theta, 0.0, pointer(observations[t]))
        features(policy, 1.0, pointer(psi[t]))
