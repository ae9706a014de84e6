"""Arithmetic on many numbers at a time, spelled out register by register.

The compiler cannot be left to do this: strict arithmetic forbids it to vectorise sums, and it guards every short loop with
checks for overlapping memory. Written with the few functions below, a layer's inner loop is only loads and fused
multiply-adds. Their order is fixed here and not by the optimiser, so every machine with 256-bit registers gives the same
bits.

A loop over columns is written once, for a block of `size` registers, and :func:`over_columns` runs it over any number of
columns. Size 0 stands for a single number, for the columns left over at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel.models import PrimitiveModel
from numba.extending import intrinsic, register_model

from evenroll.engine.helpers import helper
from evenroll.engine.pieces import INTERPRETED


class Registers(types.Type):
    """A block of numbers that fills `size` registers of 256 bits."""

    def __init__(self, number: Any, size: int) -> None:
        self.number = number
        self.count = max(size * 256 // number.bitwidth, 1)
        super().__init__(name=f"Registers[{number}, {self.count}]")


@register_model(Registers)
class _RegistersModel(PrimitiveModel):
    def __init__(self, manager: Any, lanes: Registers) -> None:
        element = manager.lookup(lanes.number).get_value_type()
        super().__init__(manager, lanes, ir.VectorType(element, lanes.count))


if INTERPRETED:

    def width_of(number: Any) -> int:
        return 4

    def load(p: Any, i: int, size: int) -> Any:
        return p[i : i + max(4 * size, 1)].copy()

    def store(p: Any, i: int, value: Any) -> None:
        p[i : i + len(value)] = value

    def splat(x: Any, size: int) -> Any:
        return np.full(max(4 * size, 1), x)

    def fma(a: Any, b: Any, c: Any) -> Any:
        return a * b + c

    def add(a: Any, b: Any) -> Any:
        return a + b

    def multiply(a: Any, b: Any) -> Any:
        return a * b

    def narrow(x: float, like: Any) -> Any:
        return x

    def relu(a: Any) -> Any:
        return np.maximum(a, 0)

    def unit_step(a: Any) -> Any:
        return np.where(a > 0, 1.0, 0.0)

    def list_positive(a: Any, b: Any, first: int, items: Any, count: int) -> int:
        found = first + np.flatnonzero((a > 0) | (b > 0))
        items[count : count + len(found)] = found
        return count + len(found)

    def dot(a: Any, b: Any) -> Any:
        return (a * b).sum()

else:

    @intrinsic
    def width_of(context: Any, number: Any) -> Any:
        """How many numbers of this type fill a register."""
        count = Registers(number.dtype, 1).count

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return ir.Constant(ir.IntType(64), count)

        return types.int64(number), codegen

    @intrinsic(prefer_literal=True)
    def load(context: Any, p: Any, i: Any, size: Any) -> Any:
        """The numbers p[i], p[i+1], … that fill `size` registers."""
        kind = Registers(p.dtype, size.literal_value)

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            at = builder.bitcast(builder.gep(arguments[0], [arguments[1]]), context.get_value_type(kind).as_pointer())
            return builder.load(at, align=p.dtype.bitwidth // 8)

        return kind(p, types.int64, size), codegen

    @intrinsic
    def store(context: Any, p: Any, i: Any, value: Any) -> Any:
        """p[i], p[i+1], … = value."""

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer, at, vector = arguments
            target = builder.bitcast(builder.gep(pointer, [at]), vector.type.as_pointer())
            builder.store(vector, target, align=p.dtype.bitwidth // 8)
            return context.get_dummy_value()

        return types.void(p, types.int64, value), codegen

    @intrinsic(prefer_literal=True)
    def splat(context: Any, x: Any, size: Any) -> Any:
        """x in every lane of `size` registers."""
        kind = Registers(x, size.literal_value)

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            vector = context.get_value_type(kind)
            one = builder.insert_element(ir.Constant(vector, ir.Undefined), arguments[0], ir.IntType(32)(0))
            return _lanes(builder, one, [0] * kind.count)

        return kind(x, size), codegen

    def _lanes(builder: Any, vector: Any, chosen: list[int]) -> Any:
        mask = ir.Constant(ir.VectorType(ir.IntType(32), len(chosen)), chosen)
        return builder.shuffle_vector(vector, ir.Constant(vector.type, ir.Undefined), mask)

    def _fma(builder: Any, a: Any, b: Any, c: Any) -> Any:
        bits = 32 if isinstance(a.type.element, ir.FloatType) else 64
        kind = ir.FunctionType(a.type, [a.type] * 3)
        name = f"llvm.fma.v{a.type.count}f{bits}"
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [a, b, c])

    @intrinsic
    def fma(context: Any, a: Any, b: Any, c: Any) -> Any:
        """a·b + c, rounded once."""

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return _fma(builder, *arguments)

        return a(a, a, a), codegen

    @intrinsic
    def add(context: Any, a: Any, b: Any) -> Any:
        """a + b."""

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.fadd(*arguments)

        return a(a, a), codegen

    @intrinsic
    def multiply(context: Any, a: Any, b: Any) -> Any:
        """a·b."""

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.fmul(*arguments)

        return a(a, a), codegen

    @intrinsic
    def narrow(context: Any, x: Any, like: Any) -> Any:
        """A double converted to the kind of number that `like` points to."""

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return context.cast(builder, arguments[0], types.float64, like.dtype)

        return like.dtype(types.float64, like), codegen

    def _positive(builder: Any, vector: Any) -> tuple[Any, Any]:
        zero = ir.Constant(vector.type, [0.0] * vector.type.count)
        return builder.fcmp_ordered(">", vector, zero), zero

    @intrinsic
    def relu(context: Any, a: Any) -> Any:
        """The larger of each number and 0."""

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            positive, zero = _positive(builder, arguments[0])
            return builder.select(positive, arguments[0], zero)

        return a(a), codegen

    @intrinsic
    def unit_step(context: Any, a: Any) -> Any:
        """1 where a > 0, else 0."""

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            positive, zero = _positive(builder, arguments[0])
            return builder.select(positive, ir.Constant(zero.type, [1.0] * a.count), zero)

        return a(a), codegen

    # For each pattern of 8 bits: first the positions of the bits that are set, then those of the others.
    _BYTE = ir.VectorType(ir.IntType(8), 8)
    _POSITIONS = [[i for wanted in (1, 0) for i in range(8) if bits >> i & 1 == wanted] for bits in range(256)]

    @intrinsic
    def list_positive(context: Any, a: Any, b: Any, first: Any, items: Any, count: Any) -> Any:
        """Append first + i to `items` for every lane i where a or b is positive. Returns the new number of items.

        The function has no branches: it always writes 8 items, so there must be room for them. a and b may fill one
        register at most.
        """

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            x, y, start, target, at = arguments
            long, longs = ir.IntType(64), ir.VectorType(ir.IntType(64), 8)
            positive = builder.or_(_positive(builder, x)[0], _positive(builder, y)[0])
            bits = builder.zext(builder.bitcast(positive, ir.IntType(a.count)), long)
            rows = ir.Constant(ir.ArrayType(_BYTE, 256), [ir.Constant(_BYTE, row) for row in _POSITIONS])
            table = cgutils.global_constant(builder, "positions", rows)
            row = builder.zext(builder.load(builder.gep(table, [long(0), bits])), longs)
            one = builder.insert_element(ir.Constant(longs, ir.Undefined), start, ir.IntType(32)(0))
            place = builder.bitcast(builder.gep(target, [at]), longs.as_pointer())
            builder.store(builder.add(row, _lanes(builder, one, [0] * 8)), place, align=8)
            return builder.add(at, builder.ctpop(bits))

        return types.int64(a, b, types.int64, items, types.int64), codegen

    @intrinsic
    def dot(context: Any, a: Any, b: Any) -> Any:
        """Σ a·b. Quarters (or registers) are summed one after the other; then halves are added until one number is left."""

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            part = min(a.count, max(a.count // 4, Registers(a.number, 1).count))
            sums = None
            for first in range(0, a.count, part):
                x, y = (_lanes(builder, v, list(range(first, first + part))) for v in arguments)
                sums = builder.fmul(x, y) if sums is None else _fma(builder, x, y, sums)
            while part > 1:
                part //= 2
                low, high = (_lanes(builder, sums, list(range(i, i + part))) for i in (0, part))
                sums = builder.fadd(low, high)
            return builder.extract_element(sums, ir.IntType(32)(0))

        return a.number(a, a), codegen


def over_columns(
    size: int, padded: bool = False, inline: bool = True, optimised: bool = True
) -> Callable[[Callable[[int], Any]], Any]:
    """Turn `body(size)`, which works on one block from a first column on, into a function of (columns, lanes, …).

    The result works on all columns: in blocks of `size` registers, then in single registers, then number by number.

    padded     whether the columns always fill whole registers, so that there is nothing to compile for single numbers
    inline     whether it becomes a part of its callers, anew each time that one of them calls it
    optimised  whether it is optimised by itself before its callers are, which takes time
    """

    def loop(body: Callable[[int], Any]) -> Any:
        sizes = (size, 1) if padded else (size, 1, 0)
        block, register, *left = (helper(optimised=optimised, forceinline=True)(body(s)) for s in sizes)

        @helper(optimised=optimised, forceinline=inline)
        def registers_only(n: int, lanes: int, *rest: Any) -> None:
            blocks = n - n % (size * lanes)
            for o in range(0, blocks, size * lanes):
                block(o, *rest)
            for o in range(blocks, n, lanes):
                register(o, *rest)

        if padded:
            return registers_only
        (number,) = left

        @helper(optimised=optimised, forceinline=inline)
        def columns(n: int, lanes: int, *rest: Any) -> None:
            blocks, registers = n - n % (size * lanes), n - n % lanes
            for o in range(0, blocks, size * lanes):
                block(o, *rest)
            for o in range(blocks, registers, lanes):
                register(o, *rest)
            for o in range(registers, n):
                number(o, *rest)

        return columns

    return loop


def aligned(values: np.ndarray, at: int = 0) -> np.ndarray:
    """A copy whose entry number `at` begins a cache line, so that no register loaded from there on straddles two lines."""
    memory = np.empty(values.nbytes + 64, dtype=np.uint8)
    first = -(memory.ctypes.data + at * values.itemsize) % 64
    copy = memory[first : first + values.nbytes].view(values.dtype)
    copy[:] = values
    return copy
