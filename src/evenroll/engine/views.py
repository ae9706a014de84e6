"""Names for numbers that compiled code works on: `Fields` names the entries of one array, a view names several arrays.

    class Clock(Fields):
        steps: int     # entry 0 of the array
        episodes: int  # entry 1

    Clock(array).steps += 1      # in Python, interpreted and compiled alike: array[0] += 1

Names cost nothing: compiled, an attribute is a load or a store at an offset that is known beforehand. The array stays a
plain array, so that it is saved, copied and compared as one.

A *view* is a NamedTuple whose members are annotated `Ints`, `Floats`, `Reals` (pointers; `Reals` in the precision of the
policy) or with a class of fields. Compiled code passes it around as one pointer to a struct of pointers.
"""

from __future__ import annotations

import functools
import sys
from typing import Any, ClassVar

from llvmlite import ir
from numba import float64, types
from numba.core import cgutils
from numba.core.datamodel.models import PrimitiveModel
from numba.core.imputils import lower_getattr_generic, lower_setattr_generic
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import intrinsic, lower_builtin, register_model, type_callable

from evenroll.engine.addresses import Addresses
from evenroll.engine.pieces import FLOATS, INTERPRETED, INTS, Interface

# ---- names for the entries of one array --------------------------------------------------------------------------


class Fields:
    """The first entries of an array by name, in the order in which a subclass annotates them."""

    count: ClassVar[int] = 0  # how many entries have a name
    names: ClassVar[tuple[str, ...]] = ()
    number: ClassVar[Any] = float64  # what the entries are where a view has such a member

    def __init__(self, array: Any) -> None:
        self._array = array

    def __init_subclass__(cls, number: Any = float64) -> None:
        cls.names, cls.number = tuple(cls.__annotations__), number
        cls.count = len(cls.names)
        for i, name in enumerate(cls.names):
            setattr(cls, name, property(functools.partial(_get, i), functools.partial(_set, i)))
        _register(cls)


def _get(i: int, fields: Fields) -> Any:
    return fields._array[i]


def _set(i: int, fields: Fields, value: Any) -> None:
    fields._array[i] = value


class FieldsType(types.Type):
    """Fields as compiled code has them: the array's address."""

    def __init__(self, fields: Any, number: Any) -> None:
        self.fields, self.dtype = fields, number
        super().__init__(name=f"{fields.__module__}.{fields.__qualname__}[{number}]")


@register_model(FieldsType)
class _FieldsModel(PrimitiveModel):
    def __init__(self, manager: Any, kind: FieldsType) -> None:
        super().__init__(manager, kind, manager.lookup(kind.dtype).get_value_type().as_pointer())


@infer_getattr
class _FieldsAttributes(AttributeTemplate):
    key = FieldsType

    def generic_resolve(self, kind: FieldsType, name: str) -> Any:
        return kind.dtype if name in kind.fields.names else None


def _place(builder: Any, kind: FieldsType, address: Any, name: str) -> Any:
    return builder.gep(address, [ir.IntType(64)(kind.fields.names.index(name))])


@lower_getattr_generic(FieldsType)
def _load_entry(context: Any, builder: Any, kind: Any, value: Any, name: str) -> Any:
    return builder.load(_place(builder, kind, value, name))


@lower_setattr_generic(FieldsType)
def _store_entry(context: Any, builder: Any, signature: Any, arguments: Any, name: str) -> Any:
    builder.store(arguments[1], _place(builder, signature.args[0], arguments[0], name))


def _register(cls: Any) -> None:
    """Let compiled code write `cls(pointer)` and `cls(array)`."""

    @type_callable(cls)
    def _type(context: Any) -> Any:
        return lambda x: FieldsType(cls, x.dtype) if isinstance(x, types.CPointer | types.Array) else None

    @lower_builtin(cls, types.CPointer)
    def _from_pointer(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return arguments[0]

    @lower_builtin(cls, types.Array)
    def _from_array(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return context.make_array(signature.args[0])(context, builder, arguments[0]).data


if INTERPRETED:

    def beyond(fields: Any) -> Any:
        """The pointer to the first entry that has no name."""
        return fields._array[fields.count :]

else:

    @intrinsic
    def beyond(typing_context: Any, fields: Any) -> Any:
        """The pointer to the first entry that has no name."""

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.gep(arguments[0], [ir.IntType(64)(fields.fields.count)])

        return types.CPointer(fields.dtype)(fields), codegen


# ---- names for several arrays ------------------------------------------------------------------------------------


class ViewType(types.Type):
    """A view as compiled code passes it around: one pointer to a struct, whose members read as attributes."""

    def __init__(self, view: Any, number: Any) -> None:
        self.view, self.number = view, number
        self.members = {name: _member(view, kind, number) for name, kind in view.__annotations__.items()}
        super().__init__(name=f"{view.__name__}[{number}]")

    @property
    def key(self) -> Any:
        return self.name


def _member(view: Any, annotation: Any, number: Any) -> Any:
    name = getattr(annotation, "__forward_arg__", annotation)
    pointers = {"Reals": types.CPointer(number), "Floats": FLOATS, "Ints": INTS}
    if name in pointers:
        return pointers[name]
    fields = getattr(sys.modules[view.__module__], name)
    return FieldsType(fields, fields.number)


@register_model(ViewType)
class _ViewModel(PrimitiveModel):
    def __init__(self, manager: Any, kind: ViewType) -> None:
        members = [manager.lookup(member).get_value_type() for member in kind.members.values()]
        super().__init__(manager, kind, ir.LiteralStructType(members).as_pointer())


@infer_getattr
class _ViewMembers(AttributeTemplate):
    key = ViewType

    def generic_resolve(self, kind: ViewType, name: str) -> Any:
        return kind.members.get(name)


@lower_getattr_generic(ViewType)
def _load_member(context: Any, builder: Any, kind: Any, value: Any, name: str) -> Any:
    return builder.load(cgutils.gep_inbounds(builder, value, 0, list(kind.members).index(name)))


@functools.cache
def view_type(view: Any, number: Any) -> ViewType:
    """The Numba type of a view, in a precision."""
    return ViewType(view, number)


def arrays_type(view: Any, number: Any) -> Addresses:
    """The Numba type of the tuple of arrays that a view is made from, as Python passes it."""
    return Addresses(tuple(member.dtype for member in view_type(view, number).members.values()))


def view_of_arrays(view: Any) -> Any:
    """A function for compiled code: a view from the tuple of its arrays. It lives as long as the calling function."""
    fields = _fields_of(view)
    if INTERPRETED:
        return lambda arrays: view(*(kind(x) if kind else x for kind, x in zip(fields, arrays, strict=True)))
    of_number = _place_of_reals(view)

    @intrinsic
    def make(typing_context: Any, arrays: Any) -> Any:
        kind = view_type(view, arrays.numbers[of_number])

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            struct = cgutils.alloca_once(builder, context.get_value_type(kind).pointee)
            builder.store(arguments[0], struct)
            return struct

        return kind(arrays), codegen

    return make


def view_of_members(view: Any) -> Any:
    """A function for compiled code: a view from the tuple of its members. It lives as long as the calling function."""
    if INTERPRETED:
        return lambda members: view(*members)
    of_number = _place_of_reals(view)

    @intrinsic
    def make(typing_context: Any, members: Any) -> Any:
        kind = view_type(view, members[of_number].dtype)

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            struct = cgutils.alloca_once(builder, context.get_value_type(kind).pointee)
            for i in range(len(members)):
                member = builder.extract_value(arguments[0], i)
                builder.store(member, cgutils.gep_inbounds(builder, struct, 0, i))
            return struct

        return kind(members), codegen

    return make


def _fields_of(view: Any) -> list[Any]:
    """For each member its class of fields, or None for a plain pointer."""
    module = sys.modules[view.__module__]
    return [None if name in ("Reals", "Floats", "Ints") else getattr(module, name) for name in _annotations(view)]


def _place_of_reals(view: Any) -> int:
    """The first member that is in the policy's precision, from which that precision is known."""
    return _annotations(view).index("Reals")


def _annotations(view: Any) -> list[str]:
    return [str(getattr(kind, "__forward_arg__", kind)) for kind in view.__annotations__.values()]


def interface(name: str, template: Any, **views: Any) -> Interface:
    """An interface whose signature is `template(pointer to reals, view types …)`, one view type for each keyword."""
    return Interface(name, lambda n: template(types.CPointer(n), *(view_type(view, n) for view in views.values())))
