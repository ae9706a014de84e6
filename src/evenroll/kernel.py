"""Compiled pieces: small functions with fixed signatures, joined by address instead of by import.

A *piece* is a module-level Python function (an environment's ``step``, a policy's ``forward``, a sampler's
``choose``) that works on raw pointers. Decorating it with :func:`piece` compiles nothing; asking for
``f.address(real)`` compiles it for that precision (or loads it from the disk cache) and gives the address
of its machine code. Drivers receive addresses in an int64 array and call through them, so

* one specialisation of the driver serves every combination of environment, policy and sampler;
* the whole-trial engine and the one-step-at-a-time driver run the *same* machine code, hence the same bits.

Inside a piece a pointer is indexed like an array (``obs[i]``), ``shift(p, n)`` is the pointer n entries on,
and ``real`` is the precision the piece is being compiled for. With ``NUMBA_DISABLE_JIT=1`` everything here
runs as plain Python on arrays, for debugging.

The disk cache is stamped with a digest of *all* evenroll sources: editing any file, also one whose code was
inlined elsewhere, can never leave stale machine code behind.
"""

from __future__ import annotations

import functools
import hashlib
import types as python_types
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import config, float32, float64, int64, njit, types, uint64
from numba.core import cgutils
from numba.core.datamodel.models import PrimitiveModel
from numba.core.imputils import lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import intrinsic, register_model

INTERPRETED: bool = bool(config.DISABLE_JIT)

# Annotations for pieces: a pointer (compiled) or an array (interpreted) of the named type.
Reals = Any  # float32 or float64: the policy's precision
Floats = Any  # float64
Ints = Any  # int64

real: Callable[[Any], Any] = np.float64  # replaced by float32 or float64 when a piece is compiled

FLOATS = types.CPointer(float64)
INTS = types.CPointer(int64)
SEEDS = types.CPointer(uint64)
FUSED = {"contract"}  # only fuse a·b + c


class PolicyView(NamedTuple):
    """What compiled code sees of a policy."""

    code: Ints  # addresses of the policy's pieces
    dims: Ints  # sizes and offsets, see the policy's own file
    index: Ints  # scratch
    theta: Reals  # parameters θ_e
    aux: Reals  # what follows from θ (probabilities) or stays fixed (batch-norm statistics)
    work: Reals  # activations of the last forward pass
    out: Floats  # outputs at θ_e, then at θ_b = θ_e − c·v, then scratch; each dims[0] long


class SamplerView(NamedTuple):
    """What compiled code sees of a sampler."""

    hyper: Floats  # hyper-parameters, fixed
    vectors: Reals  # parameter-shaped state, for example S = Σ ∇log π_e
    memory: Floats  # all other state


class Reference(types.Type):
    """A view as compiled code passes it around: one pointer to a struct, whose fields read as attributes."""

    def __init__(self, view: Any, number: Any) -> None:
        self.view, self.number = view, number
        kinds = {"Reals": types.CPointer(number), "Floats": FLOATS, "Ints": INTS}
        annotations = {name: getattr(kind, "__forward_arg__", kind) for name, kind in view.__annotations__.items()}
        self.members = {name: kinds[kind] for name, kind in annotations.items()}
        super().__init__(name=f"{view.__name__}[{number}]")

    @property
    def key(self) -> Any:
        return self.name


@register_model(Reference)
class _ReferenceModel(PrimitiveModel):
    def __init__(self, manager: Any, reference: Reference) -> None:
        members = [manager.lookup(member).get_value_type() for member in reference.members.values()]
        super().__init__(manager, reference, ir.LiteralStructType(members).as_pointer())


@infer_getattr
class _ReferenceFields(AttributeTemplate):
    key = Reference

    def generic_resolve(self, reference: Reference, name: str) -> Any:
        return reference.members.get(name)


@lower_getattr_generic(Reference)
def _load_field(context: Any, builder: Any, reference: Any, value: Any, name: str) -> Any:
    at = list(reference.members).index(name)
    return builder.load(cgutils.gep_inbounds(builder, value, 0, at))


@functools.cache
def policy_type(number: Any) -> Any:
    return Reference(PolicyView, number)


@functools.cache
def sampler_type(number: Any) -> Any:
    return Reference(SamplerView, number)


def _arrays_of(reference: Reference) -> Any:
    """The tuple of arrays that a view is made from, as Python passes it."""
    return types.Tuple([member.dtype[::1] for member in reference.members.values()])


def policy_arrays(number: Any) -> Any:
    return _arrays_of(policy_type(number))


def view_types(number: Any) -> tuple[Any, ...]:
    """Arguments that every kernel which runs a sampler begins with: policy, addresses of the sampler's pieces, sampler."""
    return policy_arrays(number), int64[::1], _arrays_of(sampler_type(number))


@functools.cache
def sources_digest() -> str:
    """A digest of every Python source of the package: what a compiled result, or a stored one, depends on."""
    digest = hashlib.sha256()
    root = Path(__file__).parent
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def compiled(function: Any, signature: Any, fastmath: Any = False) -> Any:
    """`function` compiled for one signature, cached on disk under the digest of the whole package."""
    if INTERPRETED:
        return function
    from numba.core.caching import FunctionCache

    dispatcher = njit(nogil=True, error_model="numpy", fastmath=fastmath)(function)
    without = dispatcher._cache
    try:
        cache = FunctionCache(function)
        cache._cache_file._source_stamp = (sources_digest(), cache._cache_file._source_stamp)
        dispatcher._cache = cache
    except RuntimeError:  # typed in at a prompt: there is no file to belong to
        pass
    try:
        dispatcher.compile(signature)
    except Exception as error:  # a full disk, or a cache that a crash left damaged: then without it
        if dispatcher._cache is without:
            raise
        if not isinstance(error, OSError):
            Path(cache._cache_file._index_path).unlink(missing_ok=True)
        dispatcher._cache = without
        dispatcher.compile(signature)
    dispatcher.disable_compile()
    return dispatcher


class Interface:
    """A signature with the precision left open, and the way compiled code calls a piece that has it."""

    def __init__(self, name: str, template: Callable[[Any], Any]) -> None:
        self.name = name
        self.signature = functools.cache(template)


class Piece:
    """A function with an interface; compiled on demand, once per precision."""

    def __init__(self, function: Any, interface: Interface, fastmath: Any) -> None:
        self.function = function
        self.interface = interface
        self.fastmath = fastmath
        self._compiled: dict[Any, Any] = {}
        self.__name__, self.__doc__ = function.__name__, function.__doc__

    def compile(self, number: Any) -> Any:
        if number not in self._compiled:
            globals_ = {**self.function.__globals__, "real": number}
            function = python_types.FunctionType(self.function.__code__, globals_, self.function.__name__)
            function.__qualname__ = self.function.__qualname__
            function.__module__ = self.function.__module__
            self._compiled[number] = compiled(function, self.interface.signature(number), self.fastmath)
        return self._compiled[number]

    def address(self, number: Any) -> int:
        if INTERPRETED:
            _INTERPRETED_PIECES[id(self)] = self.function
            return id(self)
        result = self.compile(number).get_compile_result(self.interface.signature(number))
        return int(result.library.get_pointer_to_function(result.fndesc.llvm_func_name))


def piece(interface: Interface, fastmath: Any = False) -> Callable[[Any], Piece]:
    """Declare a module-level function to be a piece of the given interface."""
    return lambda function: Piece(function, interface, fastmath)


def number_type(dtype: Any) -> Any:
    return float32 if np.dtype(dtype) == np.float32 else float64


_INTERPRETED_PIECES: dict[int, Any] = {}


def function_at(interface: Interface) -> Any:
    """An intrinsic ``f(address, policy)``: the function of this interface at an address, ready to be called."""
    if INTERPRETED:
        return lambda address, like: _INTERPRETED_PIECES[int(address)]

    @intrinsic
    def cast(typing_context: Any, address: Any, like: Any) -> Any:
        number = like.number if isinstance(like, Reference) else float64
        function_type = types.FunctionType(interface.signature(number))

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer_type = context.get_value_type(types.voidptr)
            struct = cgutils.create_struct_proxy(function_type)(context, builder)
            struct.jit_addr = struct.c_addr = builder.inttoptr(arguments[0], pointer_type)
            struct.py_addr = cgutils.get_null_value(pointer_type)
            return struct._getvalue()

        return function_type(types.int64, like), codegen

    return cast


if INTERPRETED:

    def policy_view(*fields: Any) -> Any:
        """A policy as compiled code sees it, from pointers to its arrays. Lives as long as the calling function."""
        return PolicyView(*fields)

    def policy_of(arrays: Any) -> Any:
        """A policy as compiled code sees it, from its arrays. Lives as long as the calling function."""
        return PolicyView(*arrays)

    def sampler_of(arrays: Any) -> Any:
        """A sampler as compiled code sees it, from its arrays. Lives as long as the calling function."""
        return SamplerView(*arrays)

    def pointer(array: Any) -> Any:
        """The address of an array's first entry."""
        return array.reshape(-1)

    def shift(p: Any, n: int) -> Any:
        """The pointer n entries further on."""
        return p[n:]

else:

    def _view_on_stack(reference: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            struct = cgutils.alloca_once(builder, context.get_value_type(reference).pointee)
            for i, argument in enumerate(arguments):
                builder.store(argument, cgutils.gep_inbounds(builder, struct, 0, i))
            return struct

        return reference(*reference.members.values()), codegen

    @intrinsic
    def policy_view(c: Any, code: Any, dims: Any, index: Any, theta: Any, aux: Any, work: Any, out: Any) -> Any:
        """A policy as compiled code sees it, from pointers to its arrays. Lives as long as the calling function."""
        return _view_on_stack(policy_type(theta.dtype))

    def _view_of_arrays(reference: Any, arrays: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            struct = cgutils.alloca_once(builder, context.get_value_type(reference).pointee)
            for i, kind in enumerate(arrays):
                array = context.make_array(kind)(context, builder, builder.extract_value(arguments[0], i))
                builder.store(array.data, cgutils.gep_inbounds(builder, struct, 0, i))
            return struct

        return reference(arrays), codegen

    @intrinsic
    def policy_of(c: Any, arrays: Any) -> Any:
        """A policy as compiled code sees it, from its arrays. Lives as long as the calling function."""
        return _view_of_arrays(policy_type(arrays[3].dtype), arrays)

    @intrinsic
    def sampler_of(c: Any, arrays: Any) -> Any:
        """A sampler as compiled code sees it, from its arrays. Lives as long as the calling function."""
        return _view_of_arrays(sampler_type(arrays[1].dtype), arrays)

    @intrinsic
    def pointer(typing_context: Any, array: Any) -> Any:
        """The address of an array's first entry."""

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return context.make_array(array)(context, builder, arguments[0]).data

        return types.CPointer(array.dtype)(array), codegen

    @intrinsic
    def shift(typing_context: Any, p: Any, n: Any) -> Any:
        """The pointer n entries further on."""

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.gep(arguments[0], [arguments[1]])

        return p(p, types.int64), codegen


def _interface(name: str, template: Callable[[Any, Any, Any], Any]) -> Interface:
    return Interface(name, lambda n: template(policy_type(n), sampler_type(n), types.CPointer(n)))


_void = types.void
# Policies. P policy, F float64 pointer, R pointer of the policy's precision.
FORWARD = _interface("forward", lambda P, M, R: _void(P, R, float64, FLOATS))
DRAW = _interface("draw", lambda P, M, R: _void(P, FLOATS, FLOATS))
LOG_PROB = _interface("log_prob", lambda P, M, R: float64(P, FLOATS, FLOATS))
ADD_SCORE = _interface("add_score", lambda P, M, R: _void(P, FLOATS, FLOATS, float64, R))
PREPARE = _interface("prepare", lambda P, M, R: _void(P))
SOFTEN = _interface("soften", lambda P, M, R: _void(P, float64))
FEATURES = _interface("features", lambda P, M, R: _void(P, float64, R))
SCORES = _interface("scores", lambda P, M, R: _void(P, FLOATS, FLOATS))
TILT = _interface("tilt", lambda P, M, R: float64(P, FLOATS, float64))
# Samplers.
CHOOSE = _interface("choose", lambda P, M, R: _void(P, M, FLOATS, FLOATS, FLOATS))
LOG_BEHAVIOR = _interface("log_behavior", lambda P, M, R: float64(P, M, FLOATS))
UPDATE = _interface("update", lambda P, M, R: _void(P, M, FLOATS, FLOATS, float64))
END_EPISODE = _interface("end_episode", lambda P, M, R: _void(P, M, float64, float64))
# Environments.
RESET = Interface("reset", lambda n: _void(FLOATS, FLOATS, FLOATS))
STEP = Interface("step", lambda n: int64(FLOATS, FLOATS, FLOATS, FLOATS, FLOATS))

POLICY_PIECES = (
    "forward",
    "draw",
    "log_prob",
    "add_score",
    "prepare",
    "soften",
    "features",
    "scores",
    "tilt",
    "draw_tilted",
    "log_tilted",
)
SAMPLER_PIECES = ("choose", "log_behavior", "update", "end_episode")

_forward, _draw, _log_prob = function_at(FORWARD), function_at(DRAW), function_at(LOG_PROB)
_add_score, _prepare, _soften = function_at(ADD_SCORE), function_at(PREPARE), function_at(SOFTEN)
_features, _scores, _tilt = function_at(FEATURES), function_at(SCORES), function_at(TILT)

# The vocabulary samplers are written in. Each calls the policy's own piece.


@njit
def forward(policy: PolicyView, vector: Reals, c: float, obs: Floats) -> None:
    """Outputs at θ and at θ_b = θ − c·vector; leaves the activations at θ for :func:`add_score`."""
    _forward(policy.code[0], policy)(policy, vector, c, obs)


@njit
def draw(policy: PolicyView, u: Floats, action: Floats) -> None:
    """a ~ π_b by inverse transform of the uniform numbers u."""
    _draw(policy.code[1], policy)(policy, u, action)


@njit
def log_prob(policy: PolicyView, out: Floats, action: Floats) -> float:
    """log π(a) of the distribution that the outputs `out` describe."""
    return _log_prob(policy.code[2], policy)(policy, out, action)


@njit
def add_score(policy: PolicyView, obs: Floats, action: Floats, weight: float, vector: Reals) -> None:
    """vector += weight · ∇_θ log π_θ(a|s), at the θ and s of the last forward pass."""
    _add_score(policy.code[3], policy)(policy, obs, action, weight, vector)


@njit
def prepare(policy: PolicyView) -> None:
    """Recompute `aux` after a change of θ."""
    _prepare(policy.code[4], policy)(policy)


@njit
def soften(policy: PolicyView, delta: float) -> None:
    """Set the outputs at θ_b to the off-policy start of method D₁: π_e mixed with uniform, or a wider Gaussian."""
    _soften(policy.code[5], policy)(policy, delta)


@njit
def features(policy: PolicyView, weight: float, psi: Reals) -> None:
    """psi = weight · [last hidden activations, 1], what the outputs are linear in, at the state of the last forward pass."""
    _features(policy.code[6], policy)(policy, weight, psi)


@njit
def tilt(policy: PolicyView, by: Floats, max_kl: float) -> float:
    """Make π_b ≈ π_e · (1 − by·x), x the scores, floored so as to stay a distribution.

    Returns KL(π_b ‖ π_e), or a bound of it that is not above max_kl.
    """
    return _tilt(policy.code[8], policy)(policy, by, max_kl)


@njit
def scores(policy: PolicyView, action: Floats, x: Floats) -> None:
    """x [dims[0]] = how far the action deviates from π_e(·|s) where :func:`tilt` was last: of mean 0 under π_e, no units.

    Discrete: 1{a} − π_e(·|s). Gaussian, each dimension: z and (z² − 1)/√2, z = (a − mean)/scale.
    """
    _scores(policy.code[7], policy)(policy, action, x)


@njit
def draw_tilted(policy: PolicyView, u: Floats, action: Floats) -> None:
    """a ~ π_b as the last :func:`tilt` left it."""
    _draw(policy.code[9], policy)(policy, u, action)


@njit
def log_tilted(policy: PolicyView, action: Floats) -> float:
    """log π_b(a) as the last :func:`tilt` left it."""
    return _log_prob(policy.code[10], policy)(policy, out_b(policy), action)


@njit
def out_b(policy: PolicyView) -> Floats:
    """The outputs at θ_b."""
    return shift(policy.out, policy.dims[0])
