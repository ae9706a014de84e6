"""Rollouts from columns that others wrote: four are needed, and what makes no sense is refused."""

from __future__ import annotations

import numpy as np
import pytest

from evenroll.collection.assembling import assemble, unlisted
from evenroll.collection.rollout_files import load_rollouts, with_gamma
from evenroll.collection.rollouts import Rollouts
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


def rows(episode: list[int], ended: list[int], cut: list[int], **more: np.ndarray) -> Rollouts:
    """Rollouts of rows whose rewards are 1, 2, 4 and so on, so that a sum says which of them it has."""
    n = len(episode)
    columns = {"log_e": None, "log_b": None, "success": None, **more}
    return assemble(
        1.0, None, np.array(episode), np.zeros((n, 1)), np.zeros((n, 1)), 2.0 ** np.arange(n), np.array(ended, bool),
        np.array(cut, bool), **columns,
    )  # fmt: skip


def test_only_the_last_episode_may_be_unfinished() -> None:
    whole = rows([5, 5, 2, 2, 9], [0, 1, 0, 0, 0], [0, 0, 0, 1, 1])
    np.testing.assert_array_equal(whole.returns, [3.0, 12.0, 16.0])
    np.testing.assert_array_equal(whole.terminated, [True, False, False])
    open_ = rows([5, 5, 2, 2, 9], [0, 1, 0, 1, 0], [0] * 5)
    np.testing.assert_array_equal(open_.returns, [3.0, 12.0])
    assert (open_.steps, open_.unfinished, open_.ends.tolist()) == (5, 1, [2, 4])
    with pytest.raises(DataError, match="episode 5 has no end"):
        rows([5, 5, 2, 2, 9], [0, 0, 0, 1, 1], [0] * 5)
    with pytest.raises(DataError, match=r"episode 2 goes on after its end \(row 2\)"):
        rows([5, 5, 2, 2, 9], [0, 1, 1, 1, 1], [0] * 5)


def test_weights_and_successes_belong_to_their_episodes() -> None:
    log_e, log_b = np.log([0.5, 0.5, 0.25, 0.5]), np.log([0.25, 0.5, 0.5, 0.5])
    data = rows([0, 0, 1, 1], [0, 1, 0, 1], [0] * 4, log_e=log_e, log_b=log_b, success=np.array([0.0, 1.0, 1.0, 0.0]))
    np.testing.assert_allclose(np.exp(data.log_weights), [2.0, 0.5])
    np.testing.assert_array_equal(data.success, [1.0, 0.0])
    assert rows([0, 1], [1, 1], [0, 0], success=np.array([1.0, np.nan])).success is None


def test_lists_of_arrow_are_rows() -> None:
    pa = pytest.importorskip("pyarrow")
    np.testing.assert_array_equal(unlisted(pa.array([[1.0, 2.0], [3.0, 4.0]])), [[1.0, 2.0], [3.0, 4.0]])
    fixed = pa.array([[1, 2], [3, 4]], pa.list_(pa.int64(), 2))
    np.testing.assert_array_equal(unlisted(fixed), [[1, 2], [3, 4]])
    np.testing.assert_array_equal(unlisted(pa.chunked_array([[1.0], [2.0]])), [1.0, 2.0])
    assert unlisted(pa.array([], pa.list_(pa.int64(), 3))).shape == (0, 3)
    with pytest.raises(ValueError, match="differ in length"):
        unlisted(pa.array([[1.0], [2.0, 3.0]]))
    with pytest.raises(ValueError, match="missing"):
        unlisted(pa.array([1, None]))
    assert np.isnan(unlisted(pa.array([1.0, None]))[1])
