"""Rollouts from columns that others wrote: four are needed, and what makes no sense is refused."""

from __future__ import annotations

import numpy as np
import pytest

from evenroll.collection.rollout_files import load_rollouts, with_gamma
from evenroll.errors import DataError


def test_a_foreign_parquet_needs_four_columns(tmp_path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = {"episode": [7, 7, 3], "observation": [[0.0, 1.0]] * 3, "action": [0, 1, 0], "reward": [1.0, 2.0, 4.0]}
    pq.write_table(pa.table(table), tmp_path / "a.parquet")
    data = load_rollouts(tmp_path / "a.parquet")
    np.testing.assert_array_equal(data.returns, [3.0, 4.0])
    np.testing.assert_array_equal(with_gamma(data, 0.5).returns, [2.0, 4.0])
    for change, text in (
        ({"reward": [1.0, float("nan"), 0.0]}, "not finite"), ({"episode": [1, 2, 1]}, "next to each other"),
    ):  # fmt: skip
        pq.write_table(pa.table({**table, **change}), tmp_path / "b.parquet")
        with pytest.raises(DataError, match=text):
            load_rollouts(tmp_path / "b.parquet")
    pq.write_table(pa.table({"episode": [1]}), tmp_path / "c.parquet")
    (tmp_path / "d.parquet").write_bytes(b"PAR1 no")
    (tmp_path / "e.safetensors").write_bytes(b"no")
    (tmp_path / "f").mkdir()
    for name, text in (("c.parquet", "missing"), ("d.parquet", "not a Parquet"), ("e.safetensors", "not a readable"),
                       ("f", "not a Minari"), ("g.parquet", "no such file")):  # fmt: skip
        with pytest.raises(DataError, match=text):
            load_rollouts(tmp_path / name)
