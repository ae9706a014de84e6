"""Eight floats or four doubles at a time, spelled out.

Left to itself the compiler either may not vectorise sums (strict arithmetic) or guards every short loop with overlap
checks. Written with these few words a layer's inner loop is just loads and fused multiply-adds, in an order that is
fixed here and not by the optimiser: the same bits on every machine with 256-bit registers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel.models import PrimitiveModel
from numba.extending import intrinsic, register_model

from evenroll.kernel import INTERPRETED


class Lanes(types.Type):  # type: ignore[misc]
    """256 bits of numbers."""

    def __init__(self, number: Any) -> None:
        self.number = number
        self.count = 256 // number.bitwidth
        super().__init__(name=f"Lanes[{number}]")


@register_model(Lanes)
class _LanesModel(PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, lanes: Lanes) -> None:
        element = manager.lookup(lanes.number).get_value_type()
        super().__init__(manager, lanes, ir.VectorType(element, lanes.count))


if INTERPRETED:

    def lanes_of(number: Any) -> int:
        return 4

    def load(p: Any, i: int) -> Any:
        return p[i : i + 4].copy()

    def load_wide(p: Any, i: int) -> Any:
        return p[i : i + 4].astype(np.float64)

    def store(p: Any, i: int, value: Any) -> None:
        p[i : i + 4] = value

    def splat(x: Any) -> Any:
        return np.full(4, x)

    def fma(a: Any, b: Any, c: Any) -> Any:
        return a * b + c

    def add(a: Any, b: Any) -> Any:
        return a + b

    def narrow(x: float, like: Any) -> Any:
        return x

    def relu(a: Any) -> Any:
        return np.maximum(a, 0)

    def where_positive(test: Any, a: Any) -> Any:
        return np.where(test > 0, a, 0)

    def total(a: Any) -> Any:
        return a.sum()

else:

    @intrinsic  # type: ignore[untyped-decorator]
    def lanes_of(context: Any, number: Any) -> Any:
        """How many numbers of this type are handled at a time."""
        count = Lanes(number.dtype).count

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return ir.Constant(ir.IntType(64), count)

        return types.int64(number), codegen

    def _load(builder: Any, p: Any, i: Any, element: Any, count: int, size: int) -> Any:
        vector = ir.VectorType(element, count)
        at = builder.bitcast(builder.gep(p, [i]), vector.as_pointer())
        return builder.load(at, align=size)

    @intrinsic  # type: ignore[untyped-decorator]
    def load(context: Any, p: Any, i: Any) -> Any:
        """The numbers p[i], p[i+1], …"""
        kind = Lanes(p.dtype)

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            element = context.get_value_type(p.dtype)
            return _load(builder, *arguments, element, kind.count, p.dtype.bitwidth // 8)

        return kind(p, types.int64), codegen

    @intrinsic  # type: ignore[untyped-decorator]
    def load_wide(context: Any, p: Any, i: Any) -> Any:
        """The four numbers p[i] … p[i+3] as doubles."""
        kind = Lanes(types.float64)

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            element = context.get_value_type(p.dtype)
            value = _load(builder, *arguments, element, 4, p.dtype.bitwidth // 8)
            return value if p.dtype == types.float64 else builder.fpext(value, context.get_value_type(kind))

        return kind(p, types.int64), codegen

    @intrinsic  # type: ignore[untyped-decorator]
    def store(context: Any, p: Any, i: Any, value: Any) -> Any:
        """p[i], p[i+1], … = value."""

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer, at, vector = arguments
            target = builder.bitcast(builder.gep(pointer, [at]), vector.type.as_pointer())
            builder.store(vector, target, align=p.dtype.bitwidth // 8)
            return context.get_dummy_value()

        return types.void(p, types.int64, value), codegen

    @intrinsic  # type: ignore[untyped-decorator]
    def splat(context: Any, x: Any) -> Any:
        """x in every lane."""
        kind = Lanes(x)

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            vector = context.get_value_type(kind)
            one = builder.insert_element(ir.Constant(vector, ir.Undefined), arguments[0], ir.IntType(32)(0))
            mask = ir.Constant(ir.VectorType(ir.IntType(32), kind.count), [0] * kind.count)
            return builder.shuffle_vector(one, ir.Constant(vector, ir.Undefined), mask)

        return kind(x), codegen

    @intrinsic  # type: ignore[untyped-decorator]
    def fma(context: Any, a: Any, b: Any, c: Any) -> Any:
        """a·b + c, rounded once."""

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            vector = arguments[0].type
            name = f"llvm.fma.v{a.count}f{a.number.bitwidth}"
            kind = ir.FunctionType(vector, [vector] * 3)
            return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments)

        return a(a, a, a), codegen

    @intrinsic  # type: ignore[untyped-decorator]
    def add(context: Any, a: Any, b: Any) -> Any:
        """a + b."""

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.fadd(*arguments)

        return a(a, a), codegen

    @intrinsic  # type: ignore[untyped-decorator]
    def narrow(context: Any, x: Any, like: Any) -> Any:
        """A double as a number of the kind `like` points to."""

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return context.cast(builder, arguments[0], types.float64, like.dtype)

        return like.dtype(types.float64, like), codegen

    @intrinsic  # type: ignore[untyped-decorator]
    def relu(context: Any, a: Any) -> Any:
        """The larger of each number and 0."""

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            zero = ir.Constant(arguments[0].type, [0.0] * a.count)
            return builder.select(builder.fcmp_ordered(">", arguments[0], zero), arguments[0], zero)

        return a(a), codegen

    @intrinsic  # type: ignore[untyped-decorator]
    def where_positive(context: Any, test: Any, a: Any) -> Any:
        """a where test > 0, else 0."""

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            zero = ir.Constant(arguments[0].type, [0.0] * a.count)
            return builder.select(builder.fcmp_ordered(">", arguments[0], zero), arguments[1], zero)

        return a(a, a), codegen

    @intrinsic  # type: ignore[untyped-decorator]
    def total(context: Any, a: Any) -> Any:
        """The sum of the lanes, pairwise."""

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            parts = [builder.extract_element(arguments[0], ir.IntType(32)(i)) for i in range(a.count)]
            while len(parts) > 1:
                half = len(parts) // 2
                parts = [builder.fadd(parts[i], parts[i + half]) for i in range(half)]
            return parts[0]

        return a.number(a), codegen
