"""A network's forward and backward pass in compiled code.

Hidden weights are [in][out], so that inner loops run along contiguous outputs. θ_b = θ − c·v is never built, because
W_b x = W x − c (V x) can be computed row by row. Inputs that are zero (inactive ReLUs) are skipped.
"""

from __future__ import annotations

import math
from typing import Any

from evenroll.engine.helpers import helper
from evenroll.engine.pieces import Floats, Ints, Reals, piece, real, shift
from evenroll.engine.scalars import larger
from evenroll.engine.simd import (
    add,
    dot,
    fma,
    list_positive,
    load,
    multiply,
    narrow,
    over_columns,
    relu,
    splat,
    store,
    unit_step,
    width_of,
)
from evenroll.engine.views import beyond
from evenroll.policies.heads import score_categorical, score_gaussian, tame
from evenroll.policies.interface import ADD_SCORE, FEATURES, FORWARD, FORWARD_E, PREPARE, PolicyView


@helper
def _head_size(policy: PolicyView) -> tuple[int, int]:
    """How many rows the head's matrix has, and how far apart their outputs lie (2 where log_std lies in between)."""
    own_scale = policy.sizes.gaussian == 1 and policy.sizes.scale_link == 1
    return (policy.sizes.action_dim, 2) if own_scale else (policy.sizes.outputs, 1)


@over_columns(8, optimised=False)
def _layer(size: int) -> Any:
    """h = b + Σ_j x_j W[j, :] over the listed inputs j, or the positive part of it. In memory the bias b follows W."""

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
    """The same layer at θ and at θ − step·v together, so that each weight is loaded once."""

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


@helper(forceinline=True)
def _list_positive(n: int, lanes: int, h_e: Reals, h_b: Reals, active: Ints) -> int:
    """List the places where h_e or h_b is positive. Returns how many there are."""
    count, registers = 0, n - n % lanes
    for o in range(0, registers, lanes):
        count = list_positive(load(h_e, o, 1), load(h_b, o, 1), o, active, count)
    for o in range(registers, n):
        count = list_positive(load(h_e, o, 0), load(h_b, o, 0), o, active, count)
    return count


@helper(forceinline=True)
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


@helper
def _at_theta(policy: PolicyView, lanes: int, obs: Floats) -> None:
    """The forward pass at θ alone."""
    sizes, widths, W = policy.sizes, beyond(policy.sizes), policy.theta
    width, is_tanh = sizes.inputs, sizes.is_tanh == 1
    normed, x = policy.work, shift(policy.work, width)
    if sizes.has_norm == 1:
        for i in range(width):
            normed[i] = (narrow(obs[i], W) - policy.aux[i]) * policy.aux[width + i]
            x[i] = W[i] * normed[i] + W[width + i]
        W = shift(W, 2 * width)
    else:
        for i in range(width):
            x[i] = narrow(obs[i], W)
    h = shift(x, 2 * width)
    # Each layer lists how many inputs to visit, and which; only ReLUs that are zero are left out. `_back_pass` reads it.
    index = policy.index
    index[0] = _list_all(width, shift(index, 1))
    for layer in range(sizes.layers):
        n = widths[layer]
        bias = width * n
        _layer(n, lanes, n, bias, not is_tanh, index[0], shift(index, 1), x, W, h)
        index = shift(index, width + 1)
        if is_tanh:
            for o in range(n):
                h[o] = math.tanh(h[o])
            index[0] = _list_all(n, shift(index, 1))
        else:
            index[0] = _list_positive(n, lanes, h, h, shift(index, 1))
        x, h, W, width = h, shift(h, 2 * n), shift(W, bias + n), n
    n_out = sizes.outputs
    rows, stride = _head_size(policy)
    out, behavior, biases = policy.out, shift(policy.out, n_out), shift(W, rows * width)
    for r in range(rows):
        out[r * stride] = biases[r]
        _dot(width, lanes, x, shift(W, r * width), shift(out, r * stride))
    if stride == 2:
        log_std = shift(biases, rows)
        for r in range(rows):
            out[2 * r + 1] = log_std[r]
    for r in range(n_out):
        behavior[r] = out[r]


@helper
def _at_both(policy: PolicyView, lanes: int, V: Reals, c: float, obs: Floats) -> None:
    """The forward pass at θ and at θ − c·V together. What belongs to the latter lies behind what belongs to θ."""
    sizes, widths, W = policy.sizes, beyond(policy.sizes), policy.theta
    width, is_tanh, step = sizes.inputs, sizes.is_tanh == 1, narrow(c, W)
    normed, x_e = policy.work, shift(policy.work, width)
    x_b = shift(x_e, width)
    if sizes.has_norm == 1:
        for i in range(width):
            normed[i] = (narrow(obs[i], W) - policy.aux[i]) * policy.aux[width + i]
            x_e[i] = W[i] * normed[i] + W[width + i]
        for i in range(width):
            x_b[i] = x_e[i] - step * (V[i] * normed[i] + V[width + i])
        W, V = shift(W, 2 * width), shift(V, 2 * width)
    else:
        for i in range(width):
            x_e[i] = narrow(obs[i], W)
            x_b[i] = x_e[i]
    h_e, index = shift(x_b, width), policy.index
    index[0] = _list_all(width, shift(index, 1))
    for layer in range(sizes.layers):
        n = widths[layer]
        h_b, bias = shift(h_e, n), width * n
        _layer_both(n, lanes, n, bias, not is_tanh, index[0], shift(index, 1), step, x_e, x_b, W, V, h_e, h_b)
        index = shift(index, width + 1)
        if is_tanh:
            for o in range(n):
                h_e[o] = math.tanh(h_e[o])
                h_b[o] = math.tanh(h_b[o])
            index[0] = _list_all(n, shift(index, 1))
        else:
            index[0] = _list_positive(n, lanes, h_e, h_b, shift(index, 1))
        x_e, x_b, h_e = h_e, h_b, shift(h_b, n)
        W, V = shift(W, bias + n), shift(V, bias + n)
        width = n
    n_out = sizes.outputs
    rows, stride = _head_size(policy)
    out, behavior, scratch = policy.out, shift(policy.out, n_out), shift(policy.out, 2 * n_out)
    bias_e, bias_v = shift(W, rows * width), shift(V, rows * width)
    for r in range(rows):
        w, v = shift(W, r * width), shift(V, r * width)
        out[r * stride], behavior[r * stride], scratch[0] = bias_e[r], bias_e[r], bias_v[r]
        _dot(width, lanes, x_e, w, shift(out, r * stride))
        _dot(width, lanes, x_b, w, shift(behavior, r * stride))
        _dot(width, lanes, x_b, v, scratch)
        behavior[r * stride] -= c * scratch[0]
    if stride == 2:
        log_std, log_std_v = shift(bias_e, rows), shift(bias_v, rows)
        for r in range(rows):
            out[2 * r + 1] = log_std[r]
            behavior[2 * r + 1] = log_std[r] - c * log_std_v[r]
    tame(policy)


@piece(FORWARD_E)
def forward_e_mlp(policy: PolicyView, obs: Floats) -> None:
    _at_theta(policy, width_of(real), obs)


@piece(FORWARD)
def forward_mlp(policy: PolicyView, vector: Reals, c: float, obs: Floats) -> None:
    if c == 0.0:
        _at_theta(policy, width_of(real), obs)
    else:
        _at_both(policy, width_of(real), vector, c, obs)


@over_columns(8)
def _back(size: int) -> Any:
    """V[j, :] += x_j d and d_in_j += W[j, :]·d for the listed inputs j."""

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
    """d ← d · activation′, where the derivative follows from the activation itself. d is added to the bias's gradient."""

    def columns(o: int, is_tanh: bool, h: Reals, d: Reals, bias_v: Reals) -> None:
        x, g = load(h, o, size), load(d, o, size)
        one = splat(narrow(1.0, h), size)
        g = multiply(g, fma(multiply(x, splat(narrow(-1.0, h), size)), x, one) if is_tanh else unit_step(x))
        store(d, o, g)
        store(bias_v, o, add(g, load(bias_v, o, size)))

    return columns


@helper
def _back_pass(policy: PolicyView, lanes: int, vector: Reals) -> None:
    """The backward pass from the score of the outputs, which lies behind the outputs at θ_b.

    It reads what the forward pass left: the activations at θ, and the lists of inputs that are not zero.
    """
    sizes, widths, work = policy.sizes, beyond(policy.sizes), policy.work
    n_out, width, layers = sizes.outputs, sizes.inputs, sizes.layers
    is_tanh, has_norm = sizes.is_tanh == 1, sizes.has_norm == 1
    d_out = shift(policy.out, 2 * n_out)
    # Walk to the last layer, to find where its inputs, weights and activations lie.
    at_w = 2 * width if has_norm else 0
    at_h = width  # x_e
    next_h, at_index, inputs, largest = 3 * width, 0, width, width
    for layer in range(layers):
        n = widths[layer]
        at_w += inputs * n + n
        at_h = next_h
        next_h += 2 * n
        at_index += inputs + 1
        inputs = n
        largest = larger(largest, n)
    d, d_next = shift(work, next_h), shift(work, next_h + largest)
    rows, stride = _head_size(policy)
    W, V, h = shift(policy.theta, at_w), shift(vector, at_w), shift(work, at_h)
    _back_head(inputs, lanes, inputs, rows, stride, h, d_out, W, V, d)
    for r in range(rows):
        V[rows * inputs + r] += narrow(d_out[r * stride], V)
        if stride == 2:
            V[rows * inputs + rows + r] += narrow(d_out[2 * r + 1], V)
    for back in range(layers):
        layer = layers - 1 - back
        n = widths[layer]
        inputs = width if layer == 0 else widths[layer - 1]
        at_w -= inputs * n + n
        at_h = width if layer == 0 else at_h - 2 * inputs
        at_index -= inputs + 1
        W, V = shift(policy.theta, at_w), shift(vector, at_w)
        _back_activation(n, lanes, is_tanh, h, d, shift(V, inputs * n))
        h = shift(work, at_h)
        active = shift(policy.index, at_index)
        for j in range(inputs):
            d_next[j] = narrow(0.0, V)
        # The inputs left out are inactive ReLUs: their weights get no gradient, and they pass nothing on.
        _back(n, lanes, n, active[0], shift(active, 1), h, d, W, V, d_next)
        d, d_next = d_next, d
    if has_norm:
        for i in range(width):
            vector[i] += d[i] * work[i]
            vector[width + i] += d[i]


@piece(ADD_SCORE)
def add_score_softmax(policy: PolicyView, obs: Floats, action: Floats, weight: float, vector: Reals) -> None:
    n = policy.sizes.outputs
    score_categorical(n, policy.out, action, weight, shift(policy.out, 2 * n))
    _back_pass(policy, width_of(real), vector)


@piece(ADD_SCORE)
def add_score_gaussian(policy: PolicyView, obs: Floats, action: Floats, weight: float, vector: Reals) -> None:
    score_gaussian(policy.sizes, policy.out, action, weight, shift(policy.out, 2 * policy.sizes.outputs))
    _back_pass(policy, width_of(real), vector)


@piece(FEATURES)
def features_mlp(policy: PolicyView, weight: float, psi: Reals) -> None:
    """psi = weight · [last hidden activations, 1]. Without hidden layers the activations are the input."""
    sizes, widths = policy.sizes, beyond(policy.sizes)
    width, at = sizes.inputs, sizes.inputs
    next_h = 3 * width
    for layer in range(sizes.layers):
        width, at = widths[layer], next_h
        next_h += 2 * width
    h, factor = shift(policy.work, at), real(weight)
    for i in range(width):
        psi[i] = factor * h[i]
    psi[width] = factor


@piece(PREPARE)
def prepare_mlp(policy: PolicyView) -> None:
    """Nothing has to be recomputed: `aux` holds only batch-norm statistics, which stay fixed."""
