"""What every policy is: flat parameters, a few sizes, and the pieces that evaluate it inside compiled code."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
from numba import float64, int64, void

from evenroll.engine import border
from evenroll.engine.addresses import Addresses, pointers
from evenroll.engine.pace import in_parts
from evenroll.engine.pieces import Piece, compiled, number_type, pointer, shift
from evenroll.engine.simd import aligned
from evenroll.errors import EvenrollError, PolicyError
from evenroll.policies.distributions import Categorical, Distribution
from evenroll.policies.interface import (
    PolicyCode,
    Sizes,
    add_score,
    forward,
    forward_e,
    log_prob,
    pieces_called,
    policy_arrays,
    policy_of,
)


class Policy:
    """A policy that the compiled engine can run: TabularSoftmax, MLP, or External, whose network runs elsewhere.

    theta      [parameters], in `dtype`
    aux        [*] fixed statistics, or tables that follow from theta
    dims       its sizes as one array; `sizes` gives them names
    n_actions  number of actions, or None if actions are real vectors of length `action_dim`
    n_states   number of states if the observation is a state's number, else None
    obs_dim    length of the observation
    critic     observations [N, obs_dim] → the values [N] of a critic that came with the policy, or None
    """

    theta: np.ndarray
    aux: np.ndarray
    dims: np.ndarray
    work_size: int
    obs_dim: int
    action_dim: int
    n_actions: int | None
    n_states: int | None = None
    choices: tuple[int, ...] = ()  # how many values each discrete action has, where a step takes several of them at once
    critic: Callable[[np.ndarray], np.ndarray] | None = None
    first_weight: int = 0  # the entry of theta that begins a cache line

    @property
    def sizes(self) -> Sizes:
        return Sizes(self.dims)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.theta.dtype

    @property
    def parameters(self) -> int:
        return len(self.theta)

    @property
    def feature_width(self) -> int:
        """The length of ψ(s), the features that the outputs are linear in (`interface.features`)."""
        return 1

    @property
    def distribution(self) -> Distribution:
        """The family of distributions that the policy's outputs describe."""
        raise TypeError("a policy kind knows the distribution of its actions")

    def parameters_of_actions(self, observations: np.ndarray) -> np.ndarray:
        """The numbers that describe π(·|s) at observations [N, obs_dim]: logits, or each dimension's mean and log scale."""
        raise TypeError("a policy kind knows the distribution of its actions")

    @property
    def score_kinds(self) -> int:
        """How many scores of an action are free to vary. A discrete action's sum to 0, so one follows from the others."""
        return self.distribution.score_kinds

    def zero_vector(self) -> np.ndarray:
        """Zeros shaped like theta, and aligned like it, which makes a step of ROS a tenth faster."""
        return aligned(np.zeros(self.parameters, dtype=self.dtype), self.first_weight)

    def pieces(self) -> dict[str, Piece]:
        raise TypeError("a policy kind lists its pieces")

    def code(self, called: Collection[str] = PolicyCode.names) -> np.ndarray:
        """Addresses of the policy's compiled pieces, in the order of `PolicyCode`. Those that nobody calls have none."""
        table, number = self.pieces(), number_type(self.dtype)
        return np.array([table[name].address(number) if name in called else 0 for name in PolicyCode.names], dtype=np.int64)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.theta = aligned(self.theta, self.first_weight)

    def arrays(self, called: Collection[str] = PolicyCode.names) -> tuple[np.ndarray, ...]:
        """The arrays behind a PolicyView. The scratch arrays are new, so that every trial has its own.

        called  the pieces that will be called (`interface.pieces_called`): the others need not be compiled
        """
        border.memory("the policy's theta", self.theta, self.dtype, int(self.sizes.parameters), PolicyError)
        n_out = int(self.sizes.outputs)
        return (
            self.code(called),
            self.dims,
            np.zeros(self.work_size + 8, dtype=np.int64),
            self.theta,
            self.aux,
            np.zeros(self.work_size, dtype=self.dtype),
            np.zeros(4 * n_out),
        )

    # ---- what comes from outside ---------------------------------------------------------------------

    def checked_observations(self, x: Any, kind: type[EvenrollError] = PolicyError, count: int | None = None) -> np.ndarray:
        """Observations [N, obs_dim] as compiled code may have them: finite and, for a table, numbers of its states."""
        rows = border.rows("observations", x, self.obs_dim, kind, count)
        return border.places("a state", rows, () if self.n_states is None else (self.n_states,), kind)

    def checked_actions(self, x: Any, kind: type[EvenrollError] = PolicyError, count: int | None = None) -> np.ndarray:
        """Actions [N, action_dim] as compiled code may have them: finite and, where they are discrete, in their range."""
        rows = border.rows("actions", x, self.action_dim, kind, count)
        return border.places("an action", rows, self.choices or (() if self.n_actions is None else (self.n_actions,)), kind)

    # ---- for people, one state at a time -------------------------------------------------------------

    def log_prob(self, obs: Any, action: Any) -> float:
        """log π(a|s)."""
        return float(self._at(obs, action, None, 0.0)[1])

    def score(self, obs: Any, action: Any) -> np.ndarray:
        """∇_θ log π_θ(a|s) with respect to all parameters, in the order of `theta`."""
        return np.asarray(self._at(obs, action, None, 0.0)[2])

    def outputs(self, obs: Any, shift: np.ndarray | None = None, step: float = 0.0) -> np.ndarray:
        """The outputs (logits, or mean and scale before their link functions) at θ − step·shift."""
        return np.asarray(self._at(obs, np.zeros(self.action_dim), shift, step)[0])

    def probabilities(self, obs: Any, shift: np.ndarray | None = None, step: float = 0.0) -> np.ndarray:
        """π(·|s) at θ − step·shift, for discrete actions only."""
        if not isinstance(self.distribution, Categorical):
            raise PolicyError("real actions have a density, not probabilities: ask for log_prob")
        return np.asarray(self.distribution.probabilities(self.outputs(obs, shift, step)[None])[0])

    def score_sum(self, observations: np.ndarray, actions: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
        """Σ_t w_t ∇_θ log π_θ(a_t|s_t) over steps [N, obs_dim], [N, action_dim], in the policy's precision."""
        total = np.zeros(self.parameters, dtype=self.dtype)
        seen = self.checked_observations(observations)
        n = len(seen)
        taken = self.checked_actions(actions, count=n)
        weight = np.ones(n) if weights is None else border.shaped("weights", weights, (n,), PolicyError)
        call, arrays = _sum_scores(number_type(self.dtype)), self.arrays(pieces_called(_sum_scores_kernel))
        for first, last in in_parts(n, self.parameters):
            part = slice(first, last)
            steps = seen[part].ravel(), taken[part].ravel(), weight[part], total
            call(arrays, steps, last - first, self.obs_dim, self.action_dim)
        return total

    def _at(self, obs: Any, action: Any, vector: np.ndarray | None, step: float) -> tuple[np.ndarray, float, np.ndarray]:
        number = number_type(self.dtype)
        gradient = np.zeros(self.parameters, dtype=self.dtype)
        here = self.checked_observations(border.single("the observation", obs, self.obs_dim, PolicyError)[None])[0]
        taken = self.checked_actions(border.single("the action", action, self.action_dim, PolicyError)[None])[0]
        length = float(border.single("step", step, 1, PolicyError)[0])
        if vector is not None:
            vector = border.shaped("shift", vector, (self.parameters,), PolicyError, self.dtype)
        arrays = self.arrays()
        out = arrays[-1]
        log_p = _probe(number)(arrays, gradient if vector is None else vector, length, here, taken, gradient)
        n_out = int(self.sizes.outputs)
        return out[n_out : 2 * n_out], log_p, gradient


@functools.cache
def _probe(number: Any) -> Any:
    reals, floats = number[::1], float64[::1]
    return compiled(_probe_kernel, float64(policy_arrays(number), reals, float64, floats, floats, reals))


def _probe_kernel(
    arrays: Any,
    vector: Any,
    step: Any,
    obs: Any,
    action: Any,
    gradient: Any,
) -> float:
    """Make one forward pass, add the action's score to `gradient`, and return the action's log-probability at θ."""
    policy = policy_of(arrays)
    forward(policy, pointer(vector), step, pointer(obs))
    log_p = log_prob(policy, policy.out, pointer(action))
    add_score(policy, pointer(obs), pointer(action), 1.0, pointer(gradient))
    return log_p


@functools.cache
def _sum_scores(number: Any) -> Any:
    steps = Addresses((float64, float64, float64, number))
    return compiled(_sum_scores_kernel, void(policy_arrays(number), steps, int64, int64, int64))


def _sum_scores_kernel(arrays: Any, steps: Any, n: Any, n_obs: Any, n_action: Any) -> None:
    policy = policy_of(arrays)
    observations, actions, weights, total = pointers(steps)
    for t in range(n):
        obs, action = shift(observations, t * n_obs), shift(actions, t * n_action)
        forward_e(policy, obs)
        add_score(policy, obs, action, weights[t], total)
