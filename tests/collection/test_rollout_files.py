"""Rollouts in files: what is written is read, and what others wrote is read or refused."""

from __future__ import annotations

import numpy as np
import pytest

from evenroll.collection.rollout_files import load_rollouts, save_minari, save_rollouts, with_gamma
from evenroll.errors import DataError
from tests.helpers import through_gymnasium

COLUMNS = ("returns", "ends", "terminated", "log_weights", "observations", "actions", "rewards", "log_e", "log_b")


@pytest.mark.parametrize("kind", ["parquet", "safetensors", "minari"])
@pytest.mark.parametrize("name", ["cartpole", "gridworld", "cartpole-continuous"])
def test_what_is_written_is_read(tmp_path, name: str, kind: str) -> None:
    """Bit for bit; Minari, which has only whole trajectories and no discount, those."""
    collector, data, env = through_gymnasium(name, steps=300)
    path = tmp_path / f"data.{kind}"
    if kind == "minari":
        save_minari(data, path, env.observation_space, env.action_space, collector.last_observations())
        again = load_rollouts(path, gamma=0.9)
        data = data.prefix(int(data.ends[-1]))
        if name == "cartpole":
            import minari

            episode = next(iter(minari.MinariDataset(path / "data").iterate_episodes()))
            assert len(episode.observations) == len(episode.actions) + 1 == data.lengths[0] + 1
            assert (episode.observations[-1] != episode.observations[-2]).all()
    else:
        save_rollouts(data, path)
        again = load_rollouts(path)
        assert again.unfinished == data.unfinished == 1
    assert (again.steps, again.gamma) == (data.steps, data.gamma)
    for column in COLUMNS:
        exact = 1e-12 if column in ("returns", "log_weights") else 0.0
        np.testing.assert_allclose(getattr(again, column), getattr(data, column), rtol=exact, atol=exact, err_msg=column)


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


def test_nothing_is_written_and_read_too(tmp_path) -> None:
    _, data, _ = through_gymnasium("cartpole", steps=30)
    for kind in ("parquet", "safetensors"):
        save_rollouts(data.prefix(0), tmp_path / f"data.{kind}")
        assert load_rollouts(tmp_path / f"data.{kind}").steps == 0


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


def test_the_names_in_files_do_not_follow_our_modules(tmp_path) -> None:
    """Files of earlier versions are read: what they call their contents is part of the format."""
    from safetensors import safe_open
    from safetensors.numpy import save_file

    arrays = {"returns": np.array([3.0]), "ends": np.array([2]), "terminated": np.array([True])}
    arrays |= {"rewards": np.array([1.0, 2.0, 5.0]), "actions": np.ones((3, 1)), "observations": np.zeros((3, 1))}
    save_file(arrays, tmp_path / "old.safetensors", {"evenroll.rollouts": '{"gamma": 1.0, "steps": 3, "horizon": null}'})
    assert load_rollouts(tmp_path / "old.safetensors").returns == [3.0]
    collector, data, _ = through_gymnasium("gridworld", steps=20)
    save_rollouts(data, tmp_path / "new.safetensors")
    collector.save(tmp_path / "collector.safetensors")
    for name, key in (("new", "evenroll.rollouts"), ("collector", "evenroll.collector")):
        with safe_open(tmp_path / f"{name}.safetensors", "numpy") as file:
            assert key in file.metadata()
