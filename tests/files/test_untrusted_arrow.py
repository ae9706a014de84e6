"""Arrow and Parquet from others, looked at before Arrow sees them: how a FlatBuffers table says where its fields are."""

from __future__ import annotations

import io
import os
import struct
import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet as parquet_files

from evenroll.errors import DataError
from evenroll.files import untrusted_arrow
from evenroll.files.untrusted_arrow import _field, _struct, _varint, most_unpacked, read_arrow, read_parquet


@pytest.mark.parametrize("before", [0, 12])
def test_fields_of_a_table_by_hand(before: int) -> None:
    """The layout says: 10 bytes long, of a table of 12; field 0 at 4, field 1 absent, field 2 at 8. There is no field 3."""
    layout = struct.pack("<HHHHH", 10, 12, 4, 0, 8)
    table = before + len(layout)
    buffer = bytes(before) + layout + struct.pack("<iii", len(layout), 7, 9)
    assert [_field(buffer, table, number) for number in range(4)] == [table + 4, 0, table + 8, 0]
    assert struct.unpack_from("<i", buffer, _field(buffer, table, 2))[0] == 9


def test_a_thrift_structure_by_hand() -> None:
    """Field 1 is the number −3, 2 is true, 5 a list of two bytes, 6 text, 7 a structure, and 40 false."""
    raw = b"xx" + bytes([0x15, 5, 0x11, 0x39, 0x23, 7, 8, 0x18, 2]) + b"ab" + bytes([0x1C, 0x15, 4, 0, 2, 80, 0]) + b"rest"
    fields, after = _struct(raw, 2)
    assert fields == {1: -3, 2: True, 5: [7, 8], 6: b"ab", 7: {1: 2}, 40: False}
    assert raw[after:] == b"rest"


@pytest.mark.parametrize("start", [b"\x1c", b"\x19\x1c"])
def test_structures_in_structures_end_somewhere(start: bytes) -> None:
    assert _struct(start * 4 + bytes(20), 0)[0]
    with pytest.raises(ValueError, match=r"^$"):
        _struct(start * 9 + bytes(20), 0)


def test_numbers_of_several_bytes() -> None:
    assert _varint(bytes([0xAC, 0x02, 9]), 0) == (300, 2)
    with pytest.raises(ValueError, match=r"^$"):
        _varint(b"\xff" * 20, 0)


def parquet(rows: int, columns: int = 1, page: int = 1 << 20, **options: object) -> bytes:
    file = io.BytesIO()
    table = pa.table({f"c{i}": [float(i + 1)] * rows for i in range(columns)})
    settings = {"use_dictionary": False, "compression": "none", "write_batch_size": 1, "data_page_size": page}
    parquet_files.write_table(table, file, **settings | options)
    return file.getvalue()


def test_pages_are_counted(monkeypatch) -> None:
    """Pages of a value each: as many as allowed are read, one more is not, wherever it stands."""
    raw = parquet(rows=6, columns=2, page=1)
    pages = 12
    monkeypatch.setattr(untrusted_arrow, "PAGE", 1 << 30)
    monkeypatch.setattr(untrusted_arrow, "MOST_PAGES", pages)
    assert read_parquet(raw, 1 << 20).num_rows == 6
    monkeypatch.setattr(untrusted_arrow, "MOST_PAGES", pages - 1)
    with pytest.raises(DataError, match="more than 11 pages"):
        read_parquet(raw, 1 << 20)
    assert read_parquet(raw, 1 << 20, wanted=["c1"]).column_names == ["c1"]  # six pages
    monkeypatch.setattr(untrusted_arrow, "MOST_PAGES", 0)
    monkeypatch.setattr(untrusted_arrow, "PAGE", len(raw) // pages)  # a page for every so many bytes of the file
    assert read_parquet(raw, 1 << 20).num_rows == 6


def test_what_a_table_takes_is_known_beforehand() -> None:
    """Each value counts 16 bytes beside those of its page: 100 numbers of 8 bytes are 2,400."""
    raw = parquet(rows=100, write_batch_size=1000)
    with pytest.raises(DataError, match="larger than 0 MiB"):
        read_parquet(raw, 2399)
    assert read_parquet(raw, 2500)["c0"].to_pylist() == [1.0] * 100
    assert most_unpacked(1) == 128 << 20
    assert most_unpacked(1 << 20) == 256 << 20
    assert most_unpacked(1 << 25) == 1 << 30
    assert most_unpacked(1 << 30) == 16 << 30


def test_long_lists_and_other_values_by_hand() -> None:
    """A list of 15 or more says its length in a number of its own; double precision takes eight bytes; text may be long."""
    raw = bytes([0x19, 0xF3, 16, *range(16), 0x17, *range(8), 0x18, 0x80, 0x01]) + b"x" * 128 + bytes([0x13, 9, 0])
    fields, after = _struct(raw, 0)
    assert fields == {1: list(range(16)), 2: 7, 3: b"x" * 128, 4: 9}
    assert after == len(raw)
    assert _struct(bytes([0x05, 20, 6, 0x15, 8, 0]), 0) == ({10: 3, 11: 4}, 6)  # the field's number in full, then the next
    with pytest.raises(ValueError, match=r"^$"):
        _struct(bytes([0x1D, 0]), 0)  # there is no kind 13


@pytest.mark.parametrize("dictionary", [False, True])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_pages_of_every_kind_are_read(dictionary: bool, version: str) -> None:
    raw = parquet(50, 2, use_dictionary=dictionary, data_page_version=version, compression="zstd", row_group_size=20)
    table = read_parquet(raw, 1 << 20)
    assert table.column_names == ["c0", "c1"]
    assert table["c1"].to_pylist() == [2.0] * 50


@pytest.mark.parametrize(
    ("pages", "words"),
    [
        ([(True, 49, 400)], "a column has not as many rows as it claims"),
        ([(True, 30, 9), (True, 21, 9)], "a column has not as many rows as it claims"),
        ([(True, 25, 9), (False, 25, 9)], "a column has not as many rows as it claims"),
        ([(False, 99, 9), (True, 50, 9)], None),
    ],
)
def test_rows_are_counted_in_the_pages(pages: list[tuple[bool, int, int]], words: str | None, monkeypatch) -> None:
    raw = parquet(50)
    monkeypatch.setattr(untrusted_arrow, "_pages", lambda raw, column: iter(pages))
    if words is None:
        assert read_parquet(raw, 1 << 20).num_rows == 50
    else:
        with pytest.raises(DataError, match=words):
            read_parquet(raw, 1 << 20)


@pytest.mark.parametrize(
    ("column", "header", "words"),
    [
        ({9: 4, 7: 60}, {}, "a column lies outside the file"),
        ({9: -4, 7: 20}, {}, "a column lies outside the file"),
        ({9: 4, 7: -1}, {}, "a column lies outside the file"),
        ({9: 4, 7: 20}, {5: {1: -1}}, "a page of negative size"),
        ({9: 4, 7: 20}, {2: -1}, "a page of negative size"),
        ({9: 4, 7: 20}, {3: -1}, "a page of negative size"),
    ],
)
def test_pages_lie_in_the_file(column: dict, header: dict, words: str, monkeypatch) -> None:
    sound = {1: 0, 2: 8, 3: 8, 5: {1: 1}}
    monkeypatch.setattr(untrusted_arrow, "_struct", lambda raw, at: (sound, at + 2))
    assert list(untrusted_arrow._pages(bytes(24), {9: 4, 7: 20})) == [(True, 1, 8), (True, 1, 8)]
    monkeypatch.setattr(untrusted_arrow, "_struct", lambda raw, at: (sound | header, at + 2))
    with pytest.raises(DataError, match=words):
        list(untrusted_arrow._pages(bytes(50), column))


def test_a_dictionary_stands_before_its_data(monkeypatch) -> None:
    seen: list[int] = []

    def header(raw: bytes, at: int) -> tuple[dict, int]:
        seen.append(at)
        return {1: 2 if at == 10 else 0, 2: 5, 3: 10, 7 if at == 10 else 8: {1: at}}, at

    monkeypatch.setattr(untrusted_arrow, "_struct", header)
    assert list(untrusted_arrow._pages(bytes(99), {9: 20, 11: 10, 7: 30})) == [(False, 10, 5), (True, 20, 5), (True, 30, 5)]
    for nowhere in (0, 20, 25):  # a dictionary is before the data, or there is none
        seen.clear()
        list(untrusted_arrow._pages(bytes(99), {9: 20, 11: nowhere, 7: 30}))
        assert seen == [20, 30, 40]


def test_what_a_file_claims_of_itself() -> None:
    raw = parquet(50)
    length = int.from_bytes(raw[-8:-4], "little")
    assert read_parquet(raw, 1 << 20).num_rows == 50
    for bad in (
        b"PAR2" + raw[4:],
        raw[:-1] + b"2",
        raw[:-8] + (len(raw) - 11).to_bytes(4, "little") + b"PAR1",
        b"",
        b"PAR1",
    ):
        with pytest.raises(DataError, match="not a Parquet file"):
            read_parquet(bad, 1 << 20)
    filled = raw[: -8 - length] + raw[-8 - length : -8] + bytes(1 << 19)
    with pytest.raises(DataError, match=r"a description of more than 26\d KiB"):
        read_parquet(filled + (length + (1 << 19)).to_bytes(4, "little") + b"PAR1", 1 << 20)


@pytest.mark.parametrize("limit", ["chunks", "groups"])
def test_parts_are_counted(limit: str, monkeypatch) -> None:
    raw = parquet(6, columns=3, row_group_size=2)  # three groups of three columns
    monkeypatch.setattr(untrusted_arrow, "MOST_CHUNKS", 9)
    assert read_parquet(raw, 1 << 20).num_rows == 6
    monkeypatch.setattr(untrusted_arrow, "MOST_CHUNKS", 8 if limit == "chunks" else 2)
    with pytest.raises(DataError, match=f"more than {8 if limit == 'chunks' else 2} parts"):
        read_parquet(raw, 1 << 20)


def nested(kind: Any, depth: int) -> Any:
    for _ in range(depth):
        kind = pa.list_(kind)
    return kind


GOOD = {
    "numbers": pa.int8(), "truth": pa.bool_(), "halves": pa.float16(), "eight deep": nested(pa.float64(), 8),
    "fixed": pa.list_(pa.float32(), 3), "large": pa.large_list(pa.int64()), "parts": pa.struct([("x", pa.list_(pa.int8()))]),
}  # fmt: skip
BAD = {
    "text": pa.string(), "dates": pa.date32(), "durations": pa.duration("s"), "decimals": pa.decimal128(5),
    "null": pa.null(),
    "nine deep": nested(pa.float64(), 9), "parts in lists": pa.list_(pa.struct([("x", pa.int8())])),
    "parts in parts": pa.struct([("x", pa.struct([("y", pa.int8())]))]), "text in parts": pa.struct([("x", pa.string())]),
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_columns_of_numbers(name: str) -> None:
    untrusted_arrow._check_type(pa.types, name, GOOD[name])


@pytest.mark.parametrize("name", BAD)
def test_columns_of_something_else(name: str) -> None:
    with pytest.raises(DataError, match=rf"column {name}.* (does not hold numbers but|has lists in lists)"):
        untrusted_arrow._check_type(pa.types, name, BAD[name])


def arrow(table: Any, **options: Any) -> bytes:
    file = io.BytesIO()
    with pa.ipc.new_file(file, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table, max_chunksize=4)
    return file.getvalue()


def test_arrow_files_are_read_or_told() -> None:
    table = pa.table({"a": [float(i) for i in range(10)]})
    assert read_arrow(arrow(table)).equals(table)
    words = pa.table({"a": pa.array(["x", "y"]).dictionary_encode()})
    for raw, text in (
        (arrow(table, compression="zstd"), "it is compressed; Parquet may be"),
        (arrow(words), "column a does not hold numbers"),
        (b"ARROW2\0\0" + arrow(table)[8:], "it does not begin as one"),
        (arrow(table)[:60], "not an Arrow file"),
    ):
        with pytest.raises(DataError, match=text):
            read_arrow(raw)


THREADS = """
import io, os
import pyarrow, pyarrow.parquet
from evenroll.files.untrusted_arrow import read_parquet
out = io.BytesIO()
pyarrow.parquet.write_table(pyarrow.table({"a": list(range(1000)), "b": list(range(1000))}), out, row_group_size=100)
before = len(os.listdir("/proc/self/task"))
assert read_parquet(out.getvalue(), 10**7).num_rows == 1000
print(before, len(os.listdir("/proc/self/task")))
"""


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="threads are counted where Linux lists them")
def test_no_thread_of_arrow_reads_a_file() -> None:
    """Such a thread, still at work when Python ended, aborted a command that had done all its work (once in thousands)."""
    run = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True, check=True)
    before, after = run.stdout.split()
    assert before == after
