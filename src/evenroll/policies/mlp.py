"""Feed-forward networks: optional input batch norm (eval mode) → hidden layers, ReLU or tanh → softmax or Gaussian.

Parameters lie flat in `theta`: norm weight, norm bias; for each hidden layer W [in][out], b [out]; head W [out][in],
b [out]; log_std. `mlp_pieces.py` has the forward and the backward pass.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import float64, int64, void

from evenroll.engine import border
from evenroll.engine.addresses import Addresses, pointers
from evenroll.engine.pace import in_parts
from evenroll.engine.pieces import Piece, compiled, number_type, shift
from evenroll.engine.simd import aligned
from evenroll.errors import PolicyError
from evenroll.policies.base import Policy
from evenroll.policies.distributions import MEAN_LINKS, Categorical, Distribution, Gaussian
from evenroll.policies.heads import CATEGORICAL, GAUSSIAN
from evenroll.policies.interface import features, forward_e, pieces_called, policy_arrays, policy_of
from evenroll.policies.mlp_pieces import (
    add_score_gaussian,
    add_score_softmax,
    features_mlp,
    forward_e_mlp,
    forward_mlp,
    prepare_mlp,
)

NORM_EPSILON = 1e-5  # what batch norm adds to a variance, as in torch.nn.BatchNorm1d
ACTIVATIONS, HEADS = ("relu", "tanh"), ("softmax", "gaussian")
MEANS = tuple(MEAN_LINKS)
SCALES = ("softplus", "log_std")  # a scale that the head computes, or one exp(log_std) for all states


def _as_real(x: Any) -> np.ndarray:
    array = border.numbers("a policy tensor", x, PolicyError)
    return np.ascontiguousarray(array, dtype=np.float64).reshape(array.shape)


class MLP(Policy):
    """A network policy from its tensors, named and shaped as in the policy file.

    layers                  (weight [out, in], bias [out]) of each hidden layer
    head_weight, head_bias  the last layer's
    norm                    (mean, var, weight, bias) of the input's batch norm, or None
    dtype                   float32 is fast and the default; float64 agrees with a float64 reference action by action
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
        if np.dtype(dtype) not in (np.float32, np.float64):
            raise PolicyError(f"dtype must be float32 or float64, not {np.dtype(dtype)}")
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
        gaussian, own_scale = head == "gaussian", scale == "log_std"
        n_out = 2 * rows if own_scale else rows
        self.obs_dim = width
        self.n_actions = None if gaussian else rows
        self.action_dim = n_out // 2 if gaussian else 1
        parts = [] if self.norm is None else [self.norm[2], self.norm[3]]
        for w, b in self.layers:
            parts += [w.T.ravel(), b]
        parts += [self.head_weight.ravel(), self.head_bias] + ([] if self.log_std is None else [self.log_std])
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
        if self.scale == "log_std" and (self.log_std is None or self.log_std.shape != (rows,)):
            raise PolicyError(f"log_std must have shape [{rows}], one entry per action dimension")
        if self.scale != "log_std" and self.log_std is not None:
            what = "a softmax head has no scale" if self.head == "softmax" else "the head itself computes a softplus scale"
            raise PolicyError(f'{what}: leave log_std out, or pass head="gaussian", scale="log_std" to use it')

    def astype(self, dtype: Any) -> MLP:
        """The same policy at another precision."""
        return MLP(
            self.layers, self.head_weight, self.head_bias, activation=self.activation, head=self.head, mean=self.mean,
            scale=self.scale, norm=self.norm, log_std=self.log_std, dtype=dtype,
        )  # fmt: skip

    def with_theta(self, theta: np.ndarray, norm_statistics: tuple[np.ndarray, np.ndarray] | None = None) -> MLP:
        """The same architecture with other flat parameters, as training makes them."""
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
        log_std = None if self.log_std is None else take(len(self.log_std))
        return MLP(
            layers, head_weight, head_bias, activation=self.activation, head=self.head, mean=self.mean,
            scale=self.scale, norm=norm, log_std=log_std, dtype=self.dtype,
        )  # fmt: skip

    @property
    def feature_width(self) -> int:
        return self.head_weight.shape[1] + 1

    def features(self, observations: np.ndarray) -> np.ndarray:
        """ψ [N, F + 1] at observations [N, obs_dim], in `dtype`: what the outputs are linear in. The constant 1 is last."""
        observations = self.checked_observations(observations)
        psi = np.empty((len(observations), self.head_weight.shape[1] + 1), self.dtype)
        call, arrays = _list_features(number_type(self.dtype)), self.arrays(pieces_called(_list_features_kernel))
        sizes = self.obs_dim, psi.shape[1]
        for first, last in in_parts(len(psi), self.parameters):
            call(arrays, (observations[first:last].reshape(-1), psi[first:last].reshape(-1)), last - first, *sizes)
        return psi

    @property
    def distribution(self) -> Distribution:
        if self.n_actions is not None:
            return Categorical((self.n_actions,))
        return Gaussian(self.action_dim, self.mean, "exp" if self.log_std is not None else "softplus")

    @property
    def head_matrix(self) -> np.ndarray:
        """The last layer's weights and, below them, its biases, [F + 1, rows]. ψ times this matrix gives the head's rows."""
        return np.concatenate([self.head_weight.T, self.head_bias[None]])

    def outputs_of_rows(self, rows: np.ndarray) -> np.ndarray:
        """The outputs [N, outputs] that `distribution` describes, from the head's rows [N, rows].

        The two are the same, unless the head computes only means: then each mean gets its log_std beside it.
        """
        if self.log_std is None:
            return rows
        return np.stack([rows, np.broadcast_to(self.log_std, rows.shape)], axis=-1).reshape(len(rows), -1)

    def outputs_of_features(self, psi: np.ndarray) -> np.ndarray:
        """The outputs [N, outputs], in float64, from the features ψ [N, F + 1]."""
        return self.outputs_of_rows(np.asarray(psi[:, :-1] @ self.head_weight.T + self.head_bias))

    def parameters_of_actions(self, observations: np.ndarray) -> np.ndarray:
        """The logits, or the mean and log scale of each dimension in turn, at observations [N, obs_dim]."""
        outputs = self.outputs_of_features(self.features(observations))
        return outputs if self.n_actions is not None else self.distribution.normalised(outputs)

    def pieces(self) -> dict[str, Piece]:
        own = {"forward": forward_mlp, "forward_e": forward_e_mlp, "prepare": prepare_mlp, "features": features_mlp}
        if self.head == "gaussian":
            return own | {"add_score": add_score_gaussian} | GAUSSIAN
        return own | {"add_score": add_score_softmax} | CATEGORICAL


@functools.cache
def _list_features(number: Any) -> Any:
    return compiled(_list_features_kernel, void(policy_arrays(number), Addresses((float64, number)), int64, int64, int64))


def _list_features_kernel(arrays: Any, steps: Any, n: Any, n_obs: Any, width: Any) -> None:
    policy = policy_of(arrays)
    observations, psi = pointers(steps)
    for t in range(n):
        forward_e(policy, shift(observations, t * n_obs))
        features(policy, 1.0, shift(psi, t * width))
