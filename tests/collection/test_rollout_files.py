"""Rollouts in files: what is written is read, and what others wrote is read or refused."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from evenroll.collection.rollout_files import check_target, load_rollouts, save_minari, save_rollouts
from evenroll.errors import SpecError
from tests.helpers import COLUMNS, through_gymnasium


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


def test_nothing_is_written_and_read_too(tmp_path) -> None:
    _, data, _ = through_gymnasium("cartpole", steps=30)
    for kind in ("parquet", "safetensors"):
        save_rollouts(data.prefix(0), tmp_path / f"data.{kind}")
        assert load_rollouts(tmp_path / f"data.{kind}").steps == 0


def test_minari_is_written_to_a_relative_path(tmp_path: Path, monkeypatch) -> None:
    """As `evenroll collect … --out data.minari` is typed."""
    monkeypatch.chdir(tmp_path)
    _, data, env = through_gymnasium("cartpole", steps=100)
    save_minari(data, "data.minari", env.observation_space, env.action_space)
    assert load_rollouts("data.minari").episodes == data.episodes


def test_who_lacks_minari_and_pyarrow_is_told_of_the_extra_that_brings_both(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(SpecError, match=r"pip install 'evenroll\[minari\]'"):
        check_target(tmp_path / "d.minari")
