"""Data as people have it: data frames, tables, dictionaries and Minari datasets are taken where rollouts are."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import evenroll
from evenroll.collection.given_data import as_rollouts
from evenroll.collection.rollout_files import load_rollouts, save_minari, save_rollouts
from evenroll.domains.catalogue import get_domain
from evenroll.errors import DataError
from tests.helpers import COLUMNS, through_gymnasium


@pytest.fixture(scope="module")
def table() -> dict[str, list[Any]]:
    """The columns of a data set, as lists."""
    _, data, _ = through_gymnasium("cartpole", steps=150)
    data = data.prefix(int(data.ends[-1]))
    ends = np.isin(np.arange(data.steps), data.ends - 1)
    return {
        "episode": np.repeat(np.arange(data.episodes), data.lengths).tolist(), "observation": data.observations.tolist(),
        "action": data.actions[:, 0].astype(int).tolist(), "reward": data.rewards.tolist(),
        "terminated": ends.tolist(), "truncated": [False] * data.steps, "log_b": data.log_b.tolist(),
        "unrelated": ["x"] * data.steps,
    }  # fmt: skip


class Frame:
    """What pandas and polars have in common: `columns`, and a column with `to_numpy`, which gives objects for lists."""

    class Series:
        def __init__(self, values: list[Any]) -> None:
            self.values = values

        def to_numpy(self) -> np.ndarray:
            if not isinstance(self.values[0], list):
                return np.array(self.values)
            found = np.empty(len(self.values), object)
            found[:] = self.values
            return found

    def __init__(self, table: dict[str, list[Any]]) -> None:
        self.table, self.columns = table, list(table)

    def __getitem__(self, name: str) -> Series:
        return self.Series(self.table[name])


class Hub:
    """What a dataset of Hugging Face looks like: `column_names`, and a column that is a sequence."""

    def __init__(self, table: dict[str, list[Any]]) -> None:
        self.table, self.column_names = table, list(table)

    def __getitem__(self, name: str) -> list[Any]:
        return self.table[name]


def with_pandas(table: dict[str, list[Any]]) -> Any:
    return pytest.importorskip("pandas").DataFrame(table)


def with_polars(table: dict[str, list[Any]]) -> Any:
    return pytest.importorskip("polars").DataFrame(table)


def with_hugging_face(table: dict[str, list[Any]]) -> Any:
    return pytest.importorskip("datasets").Dataset.from_dict(table)


FRAMES = {
    "dictionary": dict, "arrow": pa.table, "frame": Frame, "hub": Hub, "pandas": with_pandas, "polars": with_polars,
    "hugging face": with_hugging_face,
}  # fmt: skip


@pytest.mark.parametrize("kind", FRAMES)
def test_a_frame_is_taken_where_rollouts_are(table: dict[str, list[Any]], kind: str) -> None:
    expected, given = as_rollouts(table, 0.9), FRAMES[kind](table)
    data = as_rollouts(given, 0.9)
    for column in COLUMNS:
        if getattr(expected, column) is not None:
            np.testing.assert_array_equal(getattr(data, column), getattr(expected, column), err_msg=column)
    policy = get_domain("cartpole").policy()
    assert evenroll.diagnose(given, policy).episodes == expected.episodes
    env = gym.make("evenroll/CartPole-v0")
    result = evenroll.evaluate(env, policy, episodes=5, gamma=0.9, initial=given)
    assert result.episodes == expected.episodes + 5
    collector = evenroll.Collector(policy, gamma=0.9, initial=given)
    np.testing.assert_allclose(collector.initial.returns, expected.returns)


def test_initial_data_is_discounted_as_the_evaluation_is(table: dict[str, list[Any]]) -> None:
    """Data that was written with another discount does not bring its returns along."""
    data, env = as_rollouts(table), gym.make("evenroll/CartPole-v0")
    policy = get_domain("cartpole").policy()
    results = [evenroll.evaluate(env, policy, episodes=5, gamma=0.5, initial=d) for d in (data, as_rollouts(table, 0.5))]
    assert results[0].value == results[1].value < 2.0
    domains = [evenroll.evaluate("cartpole", episodes=5, gamma=0.5, initial=d) for d in (data, as_rollouts(table, 0.5))]
    assert domains[0].value == domains[1].value < 2.0


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (5, "int: this is no data"),
        ({"a": [1]}, "dict: column action is missing"),
        ({"episode": [0], "observation": [1.0], "action": [0], "reward": ["x"]}, "reward does not hold numbers"),
        (
            {"episode": [0], "observation": [np.datetime64("2020-01-01")], "action": [0], "reward": [1.0]},
            "observation does not",
        ),
        ({"episode": [0, 0], "observation": [[1.0], [1.0, 2.0]], "action": [0, 0], "reward": [1.0, 1.0]}, "do not fit"),
        ({"episode": [0, 0], "observation": [1.0, 2.0], "action": [0, None], "reward": [1.0, 1.0]}, "action lacks a number"),
        ({"train": Hub({"episode": [0]})}, r"several parts.*data\['train'\]"),
    ],
)
def test_what_is_no_data_is_refused(given: Any, why: str) -> None:
    with pytest.raises(DataError, match=why):
        as_rollouts(given)


def test_several_parts_are_not_guessed_from() -> None:
    class Parts:
        def __init__(self) -> None:
            self.column_names = {"train": ["episode"], "test": ["episode"]}

    with pytest.raises(DataError, match=r"several parts.*data\['train'\]"):
        as_rollouts(Parts())


def test_large_lists_of_parquet_are_read(table: dict[str, list[Any]], tmp_path) -> None:
    """Polars writes lists as large ones."""
    large = pa.table(table).drop_columns("unrelated")
    observation = large.column("observation").cast(pa.large_list(pa.float64()))
    large = large.set_column(large.column_names.index("observation"), "observation", observation)
    pq.write_table(large, tmp_path / "a.parquet")
    np.testing.assert_array_equal(load_rollouts(tmp_path / "a.parquet").observations, as_rollouts(table).observations)


def test_a_minari_dataset_is_taken(tmp_path) -> None:
    import minari

    collector, data, env = through_gymnasium("cartpole", steps=100)
    save_minari(data, tmp_path / "a.minari", env.observation_space, env.action_space, collector.last_observations())
    dataset = minari.MinariDataset(tmp_path / "a.minari" / "data")
    found, expected = as_rollouts(dataset, 0.9), load_rollouts(tmp_path / "a.minari", 0.9)
    for column in ("returns", "ends", "terminated", "observations", "actions", "rewards"):
        np.testing.assert_allclose(getattr(found, column), getattr(expected, column), rtol=1e-12, err_msg=column)
    save_rollouts(found, tmp_path / "converted.parquet")  # as the message about HDF5 says
    assert load_rollouts(tmp_path / "converted.parquet").episodes == found.episodes
