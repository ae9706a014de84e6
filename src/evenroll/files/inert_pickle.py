"""What a pickle describes, without anything in it being run: no import, no call, no object but the plain ones below.

A pickle is a program for a small machine with a stack. Python's own machine imports and calls what the program names. This
one writes down what would be called, as a `Call`, and goes on. Instructions that it does not know are refused.
"""

from __future__ import annotations

import pickletools
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evenroll.errors import DataError

MOST_INSTRUCTIONS = 200_000  # a pickle of statistics has a few hundred
VALUES = {
    "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "SHORT_BINUNICODE", "BINUNICODE", "SHORT_BINBYTES", "BINBYTES",
    "BINBYTES8", "BYTEARRAY8", "SHORT_BINSTRING", "BINSTRING",
}  # fmt: skip
CONSTANTS: dict[str, Any] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
EMPTY = {"EMPTY_TUPLE": tuple, "EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_SET": list}
TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
ARRAYS = ("numpy._core.multiarray _reconstruct", "numpy.core.multiarray _reconstruct")
BUFFERS = ("numpy._core.numeric _frombuffer", "numpy.core.numeric _frombuffer")
SCALARS = ("numpy._core.multiarray scalar", "numpy.core.multiarray scalar")
NUMBERS = {"f8": np.float64, "f4": np.float32, "i8": np.int64, "i4": np.int32}


@dataclass(eq=False)
class Named:
    """Something that the pickle would import: `module name`."""

    name: str


@dataclass(eq=False)
class Call:
    """Something that the pickle would call, with its arguments and the state that it would be given afterwards."""

    name: str
    arguments: Any
    state: Any = None
    items: list[Any] = field(default_factory=list)


MARK = Named("")  # the mark on the stack
OUTSIDE = "outside"  # no name of a module and a thing in it, so that no pickle can call it


def described(pickled: bytes, outside: bool = False) -> Any:
    """What the pickle describes: plain Python values, `Named` and `Call`.

    outside  whether it may refer to what lies outside of it, as torch's pickles do to their numbers: a `Call` of OUTSIDE
    """
    try:
        return _Machine(outside).run(pickled)
    except (IndexError, KeyError, ValueError, TypeError, AttributeError, UnicodeDecodeError, OverflowError):
        raise DataError("it is not a pickle that can be read") from None


class _Machine:
    def __init__(self, outside: bool) -> None:
        self.outside = outside
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def run(self, pickled: bytes) -> Any:
        for count, (code, argument, _) in enumerate(pickletools.genops(pickled)):
            if count > MOST_INSTRUCTIONS:
                raise DataError("it is a pickle of more instructions than statistics need")
            if code.name == "STOP":
                return self.stack.pop()
            self.step(code.name, argument)
        raise DataError("it is a pickle without an end")

    def step(self, name: str, argument: Any) -> None:
        stack = self.stack
        if name in ("PROTO", "FRAME"):
            return
        if name in VALUES:
            stack.append(argument)
        elif name in CONSTANTS:
            stack.append(CONSTANTS[name])
        elif name in EMPTY:
            stack.append(EMPTY[name]())
        elif name in TUPLES:
            stack.append(tuple(self.take(TUPLES[name])))
        elif name == "MARK":
            stack.append(MARK)
        elif name in ("TUPLE", "FROZENSET"):
            stack.append(tuple(self.to_mark()))
        elif name in ("MEMOIZE", "BINPUT", "LONG_BINPUT"):
            self.memo[len(self.memo) if name == "MEMOIZE" else argument] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(self.memo[argument])
        else:
            self.build(name, argument)

    def build(self, name: str, argument: Any) -> None:
        """Instructions that name, call or fill something."""
        stack = self.stack
        if name == "GLOBAL":
            stack.append(Named(argument))
        elif name == "STACK_GLOBAL":
            module, thing = self.take(2)
            stack.append(Named(f"{module} {thing}"))
        elif name in ("REDUCE", "NEWOBJ"):
            called, arguments = self.take(2)
            stack.append(Call(called.name, arguments))
        elif name == "BUILD":
            (state,) = self.take(1)
            if isinstance(stack[-1], Call):
                stack[-1].state = state
        elif name in ("SETITEM", "SETITEMS"):
            pairs = self.take(2) if name == "SETITEM" else self.to_mark()
            keys, values = pairs[::2], pairs[1::2]
            if isinstance(stack[-1], dict):
                stack[-1].update(zip(keys, values, strict=True))
            else:
                stack[-1].items.extend(zip(keys, values, strict=True))
        elif name == "BINPERSID" and self.outside:
            stack.append(Call(OUTSIDE, *self.take(1)))
        elif name in ("APPEND", "APPENDS", "ADDITEMS"):
            new = self.take(1) if name == "APPEND" else self.to_mark()
            (stack[-1] if isinstance(stack[-1], list) else stack[-1].items).extend(new)
        else:
            raise DataError(f"it is a pickle with an instruction that is not read ({name})")

    def take(self, n: int) -> list[Any]:
        if len(self.stack) < n or any(x is MARK for x in self.stack[-n:]):
            raise IndexError
        taken = self.stack[-n:]
        del self.stack[-n:]
        return taken

    def to_mark(self) -> list[Any]:
        taken: list[Any] = []
        while self.stack[-1] is not MARK:
            taken.append(self.stack.pop())
        self.stack.pop()
        return taken[::-1]


def numbers(thing: Any) -> np.ndarray:
    """The array of numbers that a description of a NumPy array or number, or a plain number, stands for."""
    try:
        if isinstance(thing, int | float):
            return np.array(float(thing))
        if thing.name in ARRAYS:
            _, shape, kind, by_columns, raw = thing.state
        elif thing.name in BUFFERS:
            raw, kind, shape, order = thing.arguments
            by_columns = order == "F"
        elif thing.name in SCALARS:
            (kind, raw), shape, by_columns = thing.arguments, (), False
        else:
            raise DataError(f"it describes a {thing.name} where numbers should be")
        little = kind.state is None or kind.state[1] in ("<", "|", "=")
        found = np.frombuffer(bytes(raw), np.dtype(NUMBERS[kind.arguments[0]]).newbyteorder("<" if little else ">"))
        return found.reshape(shape, order="F" if by_columns else "C").astype(np.float64)
    except (AttributeError, KeyError, TypeError, ValueError, IndexError):
        raise DataError("it describes numbers in a way that is not read") from None
