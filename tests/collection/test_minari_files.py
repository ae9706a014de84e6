"""Rollouts as Minari datasets."""

from __future__ import annotations

import numpy as np
import pytest

from evenroll.collection.environments import collect
from evenroll.collection.rollout_files import load_rollouts, save_minari
from evenroll.errors import DataError
from evenroll.evaluation.collector import Collector
from tests.helpers import COLUMNS, RING_LOGITS, STATES, Ring, through_gymnasium


def test_minari_as_parquet_is_read_the_same(tmp_path) -> None:
    """Converted by Minari itself, as the docs say."""
    from minari.dataset.minari_storage import MinariStorage

    _, data, env = through_gymnasium("cartpole", steps=100)
    save_minari(data, tmp_path / "a.minari", env.observation_space, env.action_space)
    old = MinariStorage.read(tmp_path / "a.minari" / "data")
    new = MinariStorage.new(
        tmp_path / "b", old.observation_space, old.action_space, data_format="parquet", jpeg_encoding=False
    )
    new.update_from_storage(old)
    a, b = (load_rollouts(tmp_path / name) for name in ("a.minari", "b"))
    for column in COLUMNS[:-2]:
        np.testing.assert_array_equal(getattr(a, column), getattr(b, column), err_msg=column)


def test_minari_has_the_environments_numbers(tmp_path) -> None:
    import minari

    collector = Collector(
        lambda state: np.exp(RING_LOGITS[state - 3]), observation_space=STATES, action_space=Ring.action_space
    )
    for _ in collect(collector, Ring(), episodes=4):
        pass
    data = collector.rollouts()
    save_minari(data, tmp_path / "a.minari", STATES, Ring.action_space, collector.last_observations())
    start = 0
    for episode in minari.MinariDataset(tmp_path / "a.minari" / "data").iterate_episodes():
        rows = slice(start, start + 7)
        np.testing.assert_array_equal(episode.observations[:-1], data.observations[rows, 0] + 3)
        np.testing.assert_array_equal(episode.observations[1:], episode.rewards)  # which is the number of the state entered
        np.testing.assert_array_equal(episode.actions, data.actions[rows, 0] + 1)
        start += 7
    again = load_rollouts(tmp_path / "a.minari")
    np.testing.assert_array_equal(again.observations, data.observations)
    np.testing.assert_array_equal(again.actions, data.actions)


def test_hdf5_is_refused_with_the_line_that_converts_it(tmp_path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "main_data.hdf5").write_bytes(b"\x89HDF")
    with pytest.raises(DataError, match=r"HDF5 is not read.*evenroll\.as_rollouts\(minari\.load_dataset\("):
        load_rollouts(tmp_path)
