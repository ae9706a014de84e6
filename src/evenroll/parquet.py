"""Parquet and Arrow files read with a limit that is checked before anything is unpacked: numbers, and lists of them, only.

A page of a few bytes may unpack to gigabytes (compression, run lengths), and what the file's end says of it may be a lie.
So the header of every page that will be read is looked at first: it says how many values and bytes come out of it.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Collection, Iterator
from typing import Any

from evenroll.errors import DataError, EvenrollError
from evenroll.files import first_line

NUMBERS = ("BOOLEAN", "INT32", "INT64", "FLOAT", "DOUBLE")
HEADER_LIMIT = 1 << 20  # entries and characters in the file's own description


def pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError:
        raise EvenrollError("Parquet needs pyarrow: pip install 'evenroll[data]'") from None
    return pyarrow


def read_parquet(raw: bytes, largest: int, wanted: Collection[str] | None = None) -> Any:
    """The table in a file of these bytes: all columns, or those of `wanted` that there are.

    largest  bytes that it may have when unpacked
    """
    pa = pyarrow()
    try:
        file = pa.parquet.ParquetFile(
            io.BytesIO(raw), thrift_string_size_limit=len(raw), thrift_container_size_limit=HEADER_LIMIT
        )
        names = [name for name in file.schema_arrow.names if wanted is None or name in wanted]
        _check(file, raw, largest, set(names))
        table = file.read(names, use_threads=False)
        table.validate(full=True)
        return table
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, MemoryError) as error:
        raise DataError(f"not a Parquet file ({first_line(error)})") from None


def _check(file: Any, raw: bytes, largest: int, wanted: set[str]) -> None:
    about, total = file.metadata, 0
    for g in range(about.num_row_groups):
        group = about.row_group(g)
        total += 8 * max(group.num_rows, 0)
        for c in range(group.num_columns):
            column = group.column(c)
            if column.path_in_schema.split(".")[0] not in wanted:
                continue
            if column.physical_type not in NUMBERS:
                raise DataError(f"column {column.path_in_schema} does not hold numbers")
            start = column.data_page_offset
            if column.has_dictionary_page:
                start = min(start, column.dictionary_page_offset)
            end = start + column.total_compressed_size
            if not 0 <= start <= end <= len(raw):
                raise DataError("a column lies outside the file")
            for values, size in _pages(raw, start, end):
                total += 16 * values + size
                if total > largest:
                    break
    if total > largest:
        raise DataError(f"larger than {largest >> 20} MiB when unpacked")


def _pages(raw: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
    """(values, bytes when unpacked) of each page, as its header has it."""
    while start < end:
        header, start = _struct(raw, start)
        counts = [header[field].get(1) for field in (5, 7, 8) if isinstance(header.get(field), dict)]  # the kinds of pages
        sizes = [*counts, header.get(2), header.get(3)]
        if not counts or not all(isinstance(n, int) and n >= 0 for n in sizes):
            raise DataError("a page header is not as Parquet has them")
        start += sizes[-1]
        yield max(counts), sizes[-2]


# ---- Thrift's compact encoding, as far as page headers go ------------------------------------------------------------


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 64:
        byte = raw[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
    raise DataError("a number in a page header is too long")


def _struct(raw: bytes, at: int, depth: int = 0) -> tuple[dict[int, Any], int]:
    """{field: integer, structure or None}, and the place after it."""
    found: dict[int, Any] = {}
    field = 0
    try:
        while raw[at]:
            step, kind = raw[at] >> 4, raw[at] & 15
            at += 1
            if step:
                field += step
            else:
                number, at = _varint(raw, at)
                field = (number >> 1) ^ -(number & 1)
            found[field], at = _value(raw, at, kind, depth)
    except IndexError:
        raise DataError("a page header ends early") from None
    return found, at + 1


def _value(raw: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in (1, 2):  # true, false
        return None, at
    if kind == 3:  # a byte
        return None, at + 1
    if kind in (4, 5, 6):
        number, at = _varint(raw, at)
        return (number >> 1) ^ -(number & 1), at
    if kind == 7:  # double
        return None, at + 8
    if kind == 8:  # bytes: minimum and maximum of a page
        length, at = _varint(raw, at)
        return None, at + length
    if kind == 12 and depth < 4:
        return _struct(raw, at, depth + 1)
    raise DataError("a page header is not as Parquet has them")


# ---- Arrow's own files -----------------------------------------------------------------------------------------------

MAGIC = b"ARROW1\0\0"
RECORD_BATCH, COMPRESSION = "record batch", 3  # kind of message; place of a field in it


def read_arrow(raw: bytes) -> Any:
    """The table in an Arrow file, which is as large in memory as on disk: compressed ones are refused."""
    pa = pyarrow()
    try:
        if not raw.startswith(MAGIC):
            raise ValueError("it does not begin as one")
        stream = pa.py_buffer(raw).slice(len(MAGIC))
        for message in pa.ipc.MessageReader.open_stream(stream):
            if message.type == RECORD_BATCH and _field(message.metadata, _header(message.metadata), COMPRESSION):
                raise ValueError("it is compressed; Parquet may be")
        with pa.ipc.open_stream(stream) as reader:
            if not all(_plain(pa.types, field.type) for field in reader.schema):
                raise ValueError("it holds something else than numbers")
            table = reader.read_all()
        if table.num_rows > len(raw):
            raise ValueError("it claims more rows than it has bytes")
        table.validate(full=True)
        return table
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, MemoryError, struct.error) as error:
        raise DataError(f"not an Arrow file that can be read ({first_line(error)})") from None


def _plain(types: Any, kind: Any) -> bool:
    if types.is_struct(kind):
        return all(_plain(types, field.type) for field in kind)
    if types.is_list(kind) or types.is_fixed_size_list(kind):
        return _plain(types, kind.value_type)
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


def _header(message: Any) -> int:
    """The place of a message's header in it (FlatBuffers: the second field of the root table)."""
    at = _field(message, struct.unpack_from("<I", message)[0], 2)
    return at + struct.unpack_from("<I", message, at)[0]


def _field(buffer: Any, table: int, number: int) -> int:
    """The place of a field of a FlatBuffers table, 0 if it has none."""
    layout = table - struct.unpack_from("<i", buffer, table)[0]
    if struct.unpack_from("<H", buffer, layout)[0] < 6 + 2 * number:
        return 0
    offset = struct.unpack_from("<H", buffer, layout + 4 + 2 * number)[0]
    return table + offset if offset else 0
