"""Arrow and Parquet from others, looked at before Arrow sees them: how a FlatBuffers table says where its fields are."""

from __future__ import annotations

import io
import struct

import pytest

from evenroll.errors import DataError
from evenroll.files import untrusted_arrow
from evenroll.files.untrusted_arrow import _field, _struct, _varint, most_unpacked, read_parquet


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
    import pyarrow as pa
    from pyarrow import parquet

    file = io.BytesIO()
    table = pa.table({f"c{i}": [float(i + 1)] * rows for i in range(columns)})
    settings = {"use_dictionary": False, "compression": "none", "write_batch_size": 1, "data_page_size": page}
    parquet.write_table(table, file, **settings | options)
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
