"""Parquet and Arrow files from strangers. Only numbers and lists of numbers are read, and a limit is checked beforehand.

Compression and run lengths let a page of a few bytes unpack to gigabytes, and the summary at the file's end may lie about
it. So the header of every page that will be read is looked at first: it says how many values and bytes come out of the page.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator
from typing import Any

from evenroll.errors import DataError, EvenrollError
from evenroll.text.numbers import first_line

# Numbers of Parquet's format, as its file parquet.thrift defines them.
NUMBERS = (0, 1, 2, 4, 5)  # physical types: truth values, whole numbers of 32 and 64 bits, single and double precision
PAGES = (5, 7, 8)  # fields of a page header: a data page, a dictionary, a data page of the second version
DICTIONARY = 2  # the page type that holds a dictionary instead of data
# Limits on what a file may claim.
FOOTER, LEAST_FOOTER = 1 << 20, 1 << 18  # the most bytes of the file's description of itself; in a small file 256 KiB
MOST_CHUNKS = 10_000  # the most parts of columns
MOST_PAGES, PAGE = 20_000, 4096  # the most pages, beyond one for every so many bytes of the file
DEEPEST = 8  # how deep structures may lie in structures
UNPACKED, RATIO = 1 << 30, 16  # rollouts may unpack to 1 GiB, or to 16 times the size of their file if that is more
SMALL, DENSEST = 128 << 20, 256  # but to more than 128 MiB only if that is at most 256 times the size of their file


def pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError:
        raise EvenrollError("Parquet needs pyarrow: pip install 'evenroll[data]'") from None
    return pyarrow


def most_unpacked(size: int) -> int:
    """How many bytes the columns of a file of this size may take when they are unpacked."""
    return min(max(UNPACKED, RATIO * size), max(SMALL, DENSEST * size))


def read_parquet(raw: bytes, largest: int, wanted: Collection[str] | None = None) -> Any:
    """The table in a file of these bytes: all its columns, or those of its columns that are `wanted`.

    largest  how many bytes the table may have when unpacked
    """
    pa = pyarrow()
    names = _check(raw, largest, wanted)
    try:
        # From memory of Arrow's own and without its threads: one that reads a Python file may still want Python when that
        # ends, which aborts the process ("terminate called without an active exception", apache/arrow#34314).
        file = pa.parquet.ParquetFile(pa.BufferReader(raw), pre_buffer=False)
        for field in file.schema_arrow:
            if field.name in names:
                _check_type(pa.types, field.name, field.type)
        table = file.read(names, use_threads=False)
        table.validate(full=True)
        return table
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, MemoryError) as error:
        raise DataError(f"not a Parquet file ({first_line(error)})") from None


def _check(raw: bytes, largest: int, wanted: Collection[str] | None) -> list[str]:
    """The names of the columns to read. Raises if they unpack to more than `largest` bytes or lie about their rows.

    The metadata is not read through pyarrow, which aborts the whole process where the metadata is damaged.
    """
    try:
        return sorted(_walk(raw, largest, wanted))
    except (IndexError, KeyError, TypeError, AttributeError, ValueError, struct.error):
        raise DataError("not a Parquet file (its description of itself is damaged)") from None


def _walk(raw: bytes, largest: int, wanted: Collection[str] | None) -> set[str]:
    length = int.from_bytes(raw[-8:-4], "little")
    if raw[:4] != b"PAR1" or raw[-4:] != b"PAR1" or length + 12 > len(raw):
        raise DataError("not a Parquet file")
    most = min(FOOTER, LEAST_FOOTER + len(raw) // 64)
    if length > most:
        raise DataError(f"not a Parquet file that is read (a description of more than {most >> 10} KiB)")
    about, _ = _struct(raw, len(raw) - 8 - length)
    names, total, pages, rows = set(), 0, 0, 0
    groups = about.get(4, ())
    chunks = [chunk[3] for group in groups for chunk in group[1]]
    if len(chunks) > MOST_CHUNKS or len(groups) > MOST_CHUNKS:
        raise DataError(f"not a Parquet file that is read (more than {MOST_CHUNKS:,} parts)")
    if sum(max(column[7], 0) for column in chunks) > len(raw):
        raise DataError("its columns claim more bytes than the file has, or the same bytes twice")
    for group in groups:
        rows += group[3]
        for chunk in group[1]:
            column = chunk[3]
            path = [part.decode() for part in column[3]]
            if wanted is not None and path[0] not in wanted:
                continue
            names.add(path[0])
            if column[1] not in NUMBERS:
                raise DataError(f"column {path[0]} does not hold numbers")
            values = 0
            for is_data, count, size in _pages(raw, column) if column[5] else ():
                values += count if is_data else 0
                total, pages = total + 16 * count + size, pages + 1
                if total > largest:
                    raise DataError(f"larger than {largest >> 20} MiB when unpacked")
                if pages > MOST_PAGES + len(raw) // PAGE:
                    raise DataError(f"in more than {MOST_PAGES:,} pages")
            if values != column[5] or (len(path) == 1 and values != group[3]):
                raise DataError("a column has not as many rows as it claims")
    if rows != about[3]:
        raise DataError("it has not as many rows as it claims")
    return names


def _pages(raw: bytes, column: dict[int, Any]) -> Iterator[tuple[bool, int, int]]:
    """What the header of each page says: (whether it holds data, not a dictionary; its values; its bytes when unpacked)."""
    at, dictionary = column[9], column.get(11, 0)
    if 0 < dictionary < at:
        at = dictionary
    end = at + column[7]
    if not 0 <= at <= end <= len(raw):
        raise DataError("a column lies outside the file")
    while at < end:
        header, at = _struct(raw, at)
        (count,) = (header[field][1] for field in PAGES if field in header)
        if count < 0 or header[2] < 0 or header[3] < 0:
            raise DataError("a page of negative size")
        at += header[3]
        yield header[1] != DICTIONARY, count, header[2]


# ---- Thrift's compact encoding, in which Parquet describes itself ------------------------------------------------------


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 64:
        byte = raw[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
    raise ValueError


def _struct(raw: bytes, at: int, depth: int = 0) -> tuple[dict[int, Any], int]:
    """A structure as {field: value}, and the place after it."""
    fields: dict[int, Any] = {}
    field = 0
    while raw[at]:
        step, kind = raw[at] >> 4, raw[at] & 15
        at += 1
        if step:
            field += step
        else:
            number, at = _varint(raw, at)
            field = (number >> 1) ^ -(number & 1)
        fields[field], at = (kind == 1, at) if kind in (1, 2) else _value(raw, at, kind, depth)
    return fields, at + 1


def _value(raw: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in (1, 2, 3):  # one byte; a truth value takes a byte only within a list
        return raw[at], at + 1
    if kind in (4, 5, 6):
        number, at = _varint(raw, at)
        return (number >> 1) ^ -(number & 1), at
    if kind == 7:  # double precision
        return raw[at + 7], at + 8
    if kind == 8:
        length, at = _varint(raw, at)
        return raw[at : at + length], at + length
    if depth == DEEPEST:
        raise ValueError
    if kind in (9, 10):
        size, inner = raw[at] >> 4, raw[at] & 15
        at += 1
        if size == 15:
            size, at = _varint(raw, at)
        items = []
        for _ in range(size):
            item, at = _value(raw, at, inner, depth + 1)
            items.append(item)
        return items, at
    if kind == 12:
        return _struct(raw, at, depth + 1)
    raise ValueError


# ---- Arrow's own files -----------------------------------------------------------------------------------------------

MAGIC = b"ARROW1\0\0"
COMPRESSION = 3  # the field of a record batch that says how it is compressed


def read_arrow(raw: bytes) -> Any:
    """The table in an Arrow file. Compressed files are refused, so the table is as large in memory as on disk."""
    pa = pyarrow()
    try:
        if not raw.startswith(MAGIC):
            raise ValueError("it does not begin as one")
        stream = pa.py_buffer(raw).slice(len(MAGIC))
        with pa.ipc.open_stream(stream) as reader:
            for field in reader.schema:
                _check_type(pa.types, field.name, field.type)
        for message in pa.ipc.MessageReader.open_stream(stream):
            if message.type not in ("schema", "record batch"):
                raise ValueError(f"it holds a {message.type}")
            if message.type == "record batch" and _field(message.metadata, _header(message.metadata), COMPRESSION):
                raise ValueError("it is compressed; Parquet may be")
        with pa.ipc.open_stream(stream) as reader:
            table = reader.read_all()
        if table.num_rows > len(raw):
            raise ValueError("it claims more rows than it has bytes")
        table.validate(full=True)
        return table
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, MemoryError, struct.error) as error:
        raise DataError(f"not an Arrow file that can be read ({first_line(error)})") from None


def _check_type(types: Any, name: str, kind: Any, depth: int = 0) -> None:
    """Raise unless a column holds numbers, lists of numbers, or at the top a structure of such columns.

    Every value then takes up room in the file. A list of empty structures would take up none, however long it claims to be.
    """
    if types.is_struct(kind) and depth == 0:
        for field in kind:
            _check_type(types, f"{name}.{field.name}", field.type, depth + 1)
    elif types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        if depth == DEEPEST:
            raise DataError(f"column {name} has lists in lists in lists")
        _check_type(types, name, kind.value_type, depth + 1)
    else:
        check_numbers(types, name, kind)


def check_numbers(types: Any, name: str, kind: Any) -> None:
    """Raise unless this Arrow type is a number. Dates, durations and decimals are stored as numbers, and mean others."""
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
        raise DataError(f"column {name} does not hold numbers but {kind}")


def _header(message: Any) -> int:
    """Where a message's header begins within the message (FlatBuffers: the second field of the root table)."""
    at = _field(message, struct.unpack_from("<I", message)[0], 2)
    return at + struct.unpack_from("<I", message, at)[0]


def _field(buffer: Any, table: int, number: int) -> int:
    """Where a field of a FlatBuffers table begins, or 0 if the table does not have the field."""
    layout = table - struct.unpack_from("<i", buffer, table)[0]
    if struct.unpack_from("<H", buffer, layout)[0] < 6 + 2 * number:
        return 0
    offset = struct.unpack_from("<H", buffer, layout + 4 + 2 * number)[0]
    return table + offset if offset else 0
