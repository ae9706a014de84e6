"""Arrow and Parquet from others, looked at before Arrow sees them: how a FlatBuffers table says where its fields are."""

from __future__ import annotations

import struct

import pytest

from evenroll.files.untrusted_arrow import _field


@pytest.mark.parametrize("before", [0, 12])
def test_fields_of_a_table_by_hand(before: int) -> None:
    """The layout says: 10 bytes long, of a table of 12; field 0 at 4, field 1 absent, field 2 at 8. There is no field 3."""
    layout = struct.pack("<HHHHH", 10, 12, 4, 0, 8)
    table = before + len(layout)
    buffer = bytes(before) + layout + struct.pack("<iii", len(layout), 7, 9)
    assert [_field(buffer, table, number) for number in range(4)] == [table + 4, 0, table + 8, 0]
    assert struct.unpack_from("<i", buffer, _field(buffer, table, 2))[0] == 9
