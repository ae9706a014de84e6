"""Compiled pieces: small functions with fixed signatures, joined by address instead of by import.

A *piece* is a module-level Python function (an environment's ``step``, a policy's ``forward``, a sampler's
``choose``) that works on raw pointers. Decorating it with :func:`piece` compiles nothing. Asking for
``f.address(real)`` compiles it for that precision (or loads it from the disk cache) and gives the address
of its machine code. The loops receive addresses and call through them. This has two reasons:

* one compiled loop serves every combination of environment, policy and sampler;
* whole trials and single steps run the *same* machine code, hence they give the same bits.

Inside a piece a pointer is indexed like an array (``obs[i]``), ``shift(p, n)`` is the pointer n entries further on,
and ``real`` is the precision that the piece is being compiled for. With ``NUMBA_DISABLE_JIT=1`` everything
runs as plain Python on arrays, for debugging.

The disk cache is stamped with a digest of all sources that can be compiled. Editing a file can therefore never leave
stale machine code behind, not even where the file's code was inlined elsewhere.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import types as python_types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numba import config, float32, float64, int64, njit, types, uint64
from numba.core import cgutils
from numba.core.caching import FunctionCache
from numba.core.runtime import rtsys
from numba.extending import intrinsic

from evenroll.engine.compiling import begins, ends
from evenroll.engine.guard import guarded
from evenroll.engine.pace import insisting
from evenroll.engine.sources import compiled_sources_digest

INTERPRETED: bool = bool(config.DISABLE_JIT)

# Annotations for pieces: a pointer (compiled) or an array (interpreted) of the named type.
Reals = Any  # float32 or float64: the policy's precision
Floats = Any  # float64
Ints = Any  # int64

real: Callable[[Any], Any] = np.float64  # replaced by float32 or float64 when a piece is compiled

FLOATS = types.CPointer(float64)
INTS = types.CPointer(int64)
SEEDS = types.CPointer(uint64)
FUSED = {"contract"}  # the liberty that a piece may give the compiler: to fuse a·b + c


class _Cache(FunctionCache):
    """Numba's disk cache. Before it loads machine code it learns how to compile all of Python and NumPy; ours does not.

    Machine code needs only the functions that count references to arrays.
    """

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        rtsys.initialize(target_context)
        found = None
        with self._guard_against_spurious_io_errors():
            found = self._load_overload(signature, target_context)
        if found is None:
            begins()
        return found


@contextlib.contextmanager
def _no_garbage() -> Iterator[None]:
    """The compiler makes millions of objects that live on; looking for garbage among them again and again takes 4 %."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        ends()
        if was_on:
            gc.enable()


def compiled(function: Any, signature: Any, fastmath: Any = False, from_python: bool = True) -> Any:
    """Compile a function for one signature. The disk cache keeps it under the digest of all sources that can be compiled.

    from_python  whether Python will call it. What checks and converts the arguments takes as long to compile as some of them
    """
    if INTERPRETED:
        return function
    options = {"nogil": True, "error_model": "numpy", "fastmath": fastmath}
    dispatcher = njit(no_cpython_wrapper=not from_python, no_cfunc_wrapper=True, **options)(function)
    without = dispatcher._cache
    try:
        cache = _Cache(function)
        cache._cache_file._source_stamp = (compiled_sources_digest(), cache._cache_file._source_stamp)
        dispatcher._cache = cache
    except RuntimeError:  # the function was typed in at a prompt, so there is no file that a cache could belong to
        pass
    with insisting(), _no_garbage():
        try:
            dispatcher.compile(signature)
        except Exception as error:  # the disk is full, or a crash has damaged the cache: compile without a cache then
            if dispatcher._cache is without:
                raise
            if not isinstance(error, OSError):
                Path(cache._cache_file._index_path).unlink(missing_ok=True)
            dispatcher._cache = without
            dispatcher.compile(signature)
    dispatcher.disable_compile()
    if from_python and not all(isinstance(kind, types.Array | types.Number | types.Boolean) for kind in signature.args):
        return guarded(dispatcher.get_compile_result(signature).entry_point)  # Numba does not know addresses.py by type
    return guarded(dispatcher)


class Interface:
    """The signature that pieces of one kind have, with the precision left open."""

    def __init__(self, name: str, template: Callable[[Any], Any]) -> None:
        self.name = name
        self.signature = functools.cache(template)


class Piece:
    """A function with an interface. It is compiled on demand, once for each precision."""

    def __init__(self, function: Any, interface: Interface, fastmath: Any) -> None:
        self.function = function
        self.interface = interface
        self.fastmath = fastmath
        self._compiled: dict[Any, Any] = {}
        self._addresses: dict[Any, int] = {}
        self.__name__, self.__doc__, self.__module__ = function.__name__, function.__doc__, function.__module__

    def __reduce__(self) -> str:
        """A piece is pickled as the name of its function: an address of machine code means nothing in another process."""
        return self.__name__

    def compile(self, number: Any) -> Any:
        if number not in self._compiled:
            globals_ = {**self.function.__globals__, "real": number}
            function = python_types.FunctionType(self.function.__code__, globals_, self.function.__name__)
            function.__qualname__ = self.function.__qualname__
            function.__module__ = self.function.__module__
            self._compiled[number] = compiled(function, self.interface.signature(number), self.fastmath, from_python=False)
        return self._compiled[number]

    def address(self, number: Any) -> int:
        if INTERPRETED:
            _INTERPRETED_PIECES[id(self)] = self.function
            return id(self)
        if number not in self._addresses:
            result = self.compile(number).get_compile_result(self.interface.signature(number))
            self._addresses[number] = int(result.library.get_pointer_to_function(result.fndesc.llvm_func_name))
        return self._addresses[number]


def piece(interface: Interface, fastmath: Any = False) -> Callable[[Any], Piece]:
    """Declare a module-level function to be a piece of the given interface."""
    return lambda function: Piece(function, interface, fastmath)


def number_type(dtype: Any) -> Any:
    """The Numba type of a policy's numbers."""
    return float32 if np.dtype(dtype) == np.float32 else float64


_INTERPRETED_PIECES: dict[int, Any] = {}


def function_at(interface: Interface) -> Any:
    """Make an intrinsic ``f(address, view)``, which gives the function of this interface at an address, ready to be called.

    The precision is that of `view` (a policy, for example). Anything that has no precision stands for float64.
    """
    if INTERPRETED:
        return lambda address, like: _INTERPRETED_PIECES[int(address)]

    @intrinsic
    def cast(typing_context: Any, address: Any, like: Any) -> Any:
        function_type = types.FunctionType(interface.signature(getattr(like, "number", float64)))

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer_type = context.get_value_type(types.voidptr)
            struct = cgutils.create_struct_proxy(function_type)(context, builder)
            struct.jit_addr = struct.c_addr = builder.inttoptr(arguments[0], pointer_type)
            struct.py_addr = cgutils.get_null_value(pointer_type)
            return struct._getvalue()

        return function_type(types.int64, like), codegen

    return cast


if INTERPRETED:

    def pointer(array: Any) -> Any:
        """The address of an array's first entry."""
        return array.reshape(-1)

    def shift(p: Any, n: int) -> Any:
        """The pointer n entries further on."""
        return p[n:]

else:

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
