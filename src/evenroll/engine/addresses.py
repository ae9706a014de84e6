"""Tuples of arrays as compiled loops take them from Python: as the addresses of their first entries, and nothing else.

An array that Numba takes itself brings its shape, its strides and its owner along. All of them are unpacked, counted and
passed on, and for the thirty arrays of a trial this was more code to compile than the loop that uses them. A loop that is
told the lengths anyway needs the addresses only.

What Numba would have checked is checked here: each array has the right type of number, is contiguous and may be written.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.datamodel.models import PrimitiveModel
from numba.core.pythonapi import NativeValue
from numba.extending import intrinsic, register_model, unbox

from evenroll.engine.pieces import INTERPRETED

# Where NumPy's C interface has these members of an array and of its dtype (ndarraytypes.h), behind Python's own head.
HEAD = object.__basicsize__
DATA, DTYPE, FLAGS = HEAD, HEAD + 40, HEAD + 48
TYPE_NUMBER = HEAD + 12
CONTIGUOUS, ALIGNED, WRITEABLE = 0x0001, 0x0100, 0x0400
_BYTE, _INT, _LONG = ir.IntType(8), ir.IntType(32), ir.IntType(64)


class Addresses(types.Type):
    """The addresses of a tuple of one-dimensional arrays with these types of numbers."""

    def __init__(self, numbers: tuple[Any, ...]) -> None:
        self.numbers = numbers
        super().__init__(name=f"Addresses[{', '.join(map(str, numbers))}]")


@register_model(Addresses)
class _AddressesModel(PrimitiveModel):
    def __init__(self, manager: Any, kind: Addresses) -> None:
        pointers = [manager.lookup(number).get_value_type().as_pointer() for number in kind.numbers]
        super().__init__(manager, kind, ir.LiteralStructType(pointers))


@unbox(Addresses)
def _from_tuple(kind: Addresses, given: Any, c: Any) -> Any:
    builder = c.builder

    def member(of: Any, offset: int, what: Any) -> Any:
        place = builder.gep(builder.bitcast(of, _BYTE.as_pointer()), [_LONG(offset)])
        return builder.load(builder.bitcast(place, what.as_pointer()))

    needed = _INT(CONTIGUOUS | ALIGNED | WRITEABLE)
    value, good = ir.Constant(c.context.get_value_type(kind), ir.Undefined), ir.IntType(1)(1)
    for i, number in enumerate(kind.numbers):
        array = c.pyapi.tuple_getitem(given, i)
        flags = builder.and_(member(array, FLAGS, _INT), needed)
        type_number = member(member(array, DTYPE, _BYTE.as_pointer()), TYPE_NUMBER, _INT)
        expected = _INT(np.dtype(str(number)).num)
        good = builder.and_(good, builder.icmp_unsigned("==", flags, needed))
        good = builder.and_(good, builder.icmp_unsigned("==", type_number, expected))
        pointer = c.context.get_value_type(number).as_pointer()
        value = builder.insert_value(value, member(array, DATA, pointer), i)
    wrong = builder.not_(good)
    with builder.if_then(wrong, likely=False):
        why = f"arrays do not fit {kind.name}: other numbers, not contiguous or read-only"
        c.pyapi.err_set_string("PyExc_TypeError", why)
    return NativeValue(value, is_error=wrong)


if INTERPRETED:

    def pointers(arrays: Any) -> Any:
        """The pointers to the first entries of the arrays."""
        return arrays

else:

    @intrinsic
    def pointers(typing_context: Any, arrays: Any) -> Any:
        """The pointers to the first entries of the arrays."""
        kind = types.Tuple([types.CPointer(number) for number in arrays.numbers])

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            members = [builder.extract_value(arguments[0], i) for i in range(len(arrays.numbers))]
            return context.make_tuple(builder, kind, members)

        return kind(arrays), codegen
