"""What compiled code sees of a policy, and the words that samplers are written in.

Every policy brings the same pieces (`PolicyCode`); each word below calls the policy's own one.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any, NamedTuple

from numba import float64, int64, types

from evenroll.engine.helpers import helper
from evenroll.engine.pieces import FLOATS, Floats, Ints, Reals, function_at, shift
from evenroll.engine.views import Fields, arrays_type, interface, view_of_arrays, view_of_members


class PolicyCode(Fields, number=int64):
    """The addresses of a policy's pieces."""

    forward: int
    forward_e: int
    draw: int
    log_prob: int
    add_score: int
    prepare: int
    soften: int
    features: int
    scores: int
    tilt: int
    draw_tilted: int
    log_tilted: int
    drift: int


class Sizes(Fields, number=int64):
    """How large a policy is, and which functions link its outputs to a distribution.

    Behind the named entries (`beyond`) an MLP has the widths of its hidden layers. An external policy has the number of its
    discrete factors (0 for a Gaussian), and then the number of values of each factor.
    """

    outputs: int
    action_dim: int  # 1 if the action is discrete
    parameters: int
    inputs: int  # the length of an observation; for a table, the number of states; for an external policy, of its features
    layers: int  # hidden layers
    is_tanh: int  # activation: 1 for tanh, 0 for ReLU
    has_norm: int  # 1 if the input is batch-normalised
    mean_link: int  # for a Gaussian: 0 for tanh, 1 for the identity
    scale_link: int  # for a Gaussian: 0 for softplus, 1 for exp
    gaussian: int  # 1 for a Gaussian head, 0 for a softmax


class PolicyView(NamedTuple):
    """What compiled code sees of a policy."""

    code: PolicyCode
    sizes: Sizes
    index: Ints  # scratch
    theta: Reals  # parameters θ_e
    aux: Reals  # numbers that follow from θ (probabilities) or stay fixed (batch-norm statistics)
    work: Reals  # activations of the last forward pass
    out: Floats  # outputs at θ_e, then at θ_b = θ_e − c·v, then scratch; each as long as there are outputs


policy_of = view_of_arrays(PolicyView)
policy_from = view_of_members(PolicyView)


def policy_arrays(number: Any) -> Any:
    """The Numba type of `Policy.arrays()`."""
    return arrays_type(PolicyView, number)


_void = types.void
# P is the policy, R a pointer in its precision.
FORWARD = interface("forward", lambda R, P: _void(P, R, float64, FLOATS), policy=PolicyView)
FORWARD_E = interface("forward_e", lambda R, P: _void(P, FLOATS), policy=PolicyView)
DRAW = interface("draw", lambda R, P: _void(P, FLOATS, FLOATS), policy=PolicyView)
LOG_PROB = interface("log_prob", lambda R, P: float64(P, FLOATS, FLOATS), policy=PolicyView)
ADD_SCORE = interface("add_score", lambda R, P: _void(P, FLOATS, FLOATS, float64, R), policy=PolicyView)
PREPARE = interface("prepare", lambda R, P: _void(P), policy=PolicyView)
SOFTEN = interface("soften", lambda R, P: _void(P, float64), policy=PolicyView)
FEATURES = interface("features", lambda R, P: _void(P, float64, R), policy=PolicyView)
SCORES = interface("scores", lambda R, P: _void(P, FLOATS, FLOATS), policy=PolicyView)
DRIFT = interface("drift", lambda R, P: _void(P, FLOATS), policy=PolicyView)
TILT = interface("tilt", lambda R, P: float64(P, FLOATS, float64), policy=PolicyView)

_forward, _draw, _log_prob = function_at(FORWARD), function_at(DRAW), function_at(LOG_PROB)
_add_score, _prepare, _soften = function_at(ADD_SCORE), function_at(PREPARE), function_at(SOFTEN)
_features, _scores, _tilt = function_at(FEATURES), function_at(SCORES), function_at(TILT)
_drift, _forward_e = function_at(DRIFT), function_at(FORWARD_E)


@helper
def forward(policy: PolicyView, vector: Reals, c: float, obs: Floats) -> None:
    """Compute the outputs at θ and at θ_b = θ − c·vector, and leave the activations at θ for :func:`add_score`."""
    _forward(policy.code.forward, policy)(policy, vector, c, obs)


@helper
def forward_e(policy: PolicyView, obs: Floats) -> None:
    """The same where θ_b = θ: half of the code, for those who need no more of it."""
    _forward_e(policy.code.forward_e, policy)(policy, obs)


@helper
def draw(policy: PolicyView, u: Floats, action: Floats) -> None:
    """Draw a ~ π_b by inverse transform of the uniform numbers u."""
    _draw(policy.code.draw, policy)(policy, u, action)


@helper
def log_prob(policy: PolicyView, out: Floats, action: Floats) -> float:
    """log π(a) of the distribution that the outputs `out` describe."""
    return _log_prob(policy.code.log_prob, policy)(policy, out, action)


@helper
def add_score(policy: PolicyView, obs: Floats, action: Floats, weight: float, vector: Reals) -> None:
    """vector += weight · ∇_θ log π_θ(a|s), at the θ and s of the last forward pass."""
    _add_score(policy.code.add_score, policy)(policy, obs, action, weight, vector)


@helper
def prepare(policy: PolicyView) -> None:
    """Recompute `aux` after a change of θ."""
    _prepare(policy.code.prepare, policy)(policy)


@helper
def soften(policy: PolicyView, delta: float) -> None:
    """Set the outputs at θ_b to the off-policy start of method D₁: π_e mixed with uniform, or a wider Gaussian."""
    _soften(policy.code.soften, policy)(policy, delta)


@helper
def features(policy: PolicyView, weight: float, psi: Reals) -> None:
    """psi = weight · [last hidden activations, 1] at the state of the last forward pass. The outputs are linear in them."""
    _features(policy.code.features, policy)(policy, weight, psi)


@helper
def tilt(policy: PolicyView, by: Floats, max_kl: float) -> float:
    """Make π_b ≈ π_e · (1 − by·x), where x are the scores. A floor keeps π_b a distribution.

    Returns KL(π_b ‖ π_e), or a bound of it that is not above max_kl.
    """
    return _tilt(policy.code.tilt, policy)(policy, by, max_kl)


@helper
def scores(policy: PolicyView, action: Floats, x: Floats) -> None:
    """x [outputs] = how far the action deviates from π_e(·|s), in the state of the last :func:`tilt`.

    Scores have mean 0 under π_e, and no units. They are 1{a} − π_e(·|s) for a discrete action; for each dimension of a
    Gaussian they are z and (z² − 1)/√2, z = (a − mean)/scale.
    """
    _scores(policy.code.scores, policy)(policy, action, x)


@helper
def drift(policy: PolicyView, x: Floats) -> None:
    """x [outputs] = E_b of the scores, under π_b as the last :func:`tilt` left it."""
    _drift(policy.code.drift, policy)(policy, x)


@helper
def draw_tilted(policy: PolicyView, u: Floats, action: Floats) -> None:
    """Draw a ~ π_b as the last :func:`tilt` left it."""
    _draw(policy.code.draw_tilted, policy)(policy, u, action)


@helper
def log_tilted(policy: PolicyView, action: Floats) -> float:
    """log π_b(a) as the last :func:`tilt` left it."""
    return _log_prob(policy.code.log_tilted, policy)(policy, out_b(policy), action)


@helper
def out_b(policy: PolicyView) -> Floats:
    """The outputs at θ_b."""
    return shift(policy.out, policy.sizes.outputs)


# ---- which pieces a function needs ---------------------------------------------------------------------------------


def pieces_called(function: Any) -> frozenset[str]:
    """The policy's pieces that a function calls, by the words above, itself or through the functions that it names."""
    seen: set[int] = set()
    return frozenset(_called(function, seen))


def _called(function: Any, seen: set[int]) -> set[str]:
    function = getattr(function, "function", function)  # what a piece or a helper was made from
    if not isinstance(function, FunctionType) or id(function) in seen:
        return set()
    seen.add(id(function))
    names = set(function.__code__.co_names)
    found = names & set(PolicyCode.names) if "code" in names else set()
    inside = [cell.cell_contents for cell in function.__closure__ or ()]
    reached = [function.__globals__.get(name) for name in names]
    return found.union(*(_called(other, seen) for other in inside + reached))
