"""The benchmark: every domain has its row, also one's own, and nothing is looked up by a domain's name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rich.table import Table

from evenroll.domains.catalogue import DOMAINS, get_domain
from evenroll.domains.tabular import tabular_domain
from evenroll.study import bench
from tests.domains.walk import walk

SPEEDS = {f"{key}_steps_per_second" for key in ("os", "ros", "bpg", "torch")}


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A benchmark of moments."""
    for name in ("NETWORK_STEPS", "TABLE_STEPS", "TABLE_EPISODES"):
        monkeypatch.setattr(bench, name, 500)


def test_the_steps_of_a_measurement_are_those_of_earlier_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures in the notes were measured with these."""
    monkeypatch.undo()
    assert [bench._steps(get_domain(name)) for name in DOMAINS] == [300_000, 1_000_000, 100_000, 100_000]


def test_a_domain_of_ones_own_has_a_row() -> None:
    table = tabular_domain("two arms", np.ones((1, 2, 1)), [[0.0, 1.0]], [1.0], horizon=1)
    seen: list[tuple[int, int]] = []
    result = bench.run_bench([table, walk(), "gridworld"], quick=True, progress=lambda *x: seen.append(x))
    rows = result["speeds"]
    assert [row["domain"] for row in rows] == ["two arms", "walk", "gridworld"]
    for row in rows:
        assert set(row) == {"domain", "ros_against_torch"} | SPEEDS
        assert min(row[f"{key}_steps_per_second"] for key in ("os", "ros", "bpg")) > 0
        assert row["torch_steps_per_second"] is None  # quick means: without PyTorch
    assert seen[-1] == (9, 9)
    shown = list(bench.tables(result))
    assert len(shown) == 1
    assert isinstance(shown[0], Table)
    assert shown[0].row_count == 3


def test_everything_is_measured_without_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def measured(domain: Any, *rest: Any) -> Any:
        asked.append(domain.name)
        rest[-1]()
        return "measured"

    for name in ("_two_cores", "_compile_times", "_by_data", "_by_width"):
        monkeypatch.setattr(bench, name, measured)
    result = bench.run_bench(quick=True)
    assert [row["domain"] for row in result["speeds"]] == list(DOMAINS)
    assert result["network"] == "cartpole"  # a network with a probability for each action
    assert asked == ["cartpole"] * 4
    measures = ("two_cores_over_one", "compile_seconds", "by_data", "by_width")
    assert all(result[key] == "measured" for key in measures)


def test_time_by_data_and_by_width_are_measured_on_any_network() -> None:
    domain = get_domain("cartpole:actions=3")
    rows = bench._by_width(domain, 1, lambda: None)
    assert [row["hidden"] for row in rows] == [64, 128, 256]
    assert all(row["nanoseconds"] > 0 for row in rows)
    rows = bench._by_data(get_domain("cartpole"), 1, lambda: None)
    assert [row["k"] for row in rows] == [1_000, 100_000, 400_000]


def test_the_one_file_version_runs_in_the_same_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    assert bench._one_file() is not None  # found in examples/
    calls: list[tuple[Any, float, int]] = []

    def run(env: Any, policy: Any, alpha: float, steps: int, uniform: Any) -> None:
        calls.append((env.unwrapped.domain.name, alpha, steps))

    monkeypatch.setattr(bench, "_one_file", lambda: SimpleNamespace(robust_on_policy_sampling=run))
    result = bench.run_bench(["gridworld", walk()])
    assert set(calls) == {("gridworld", 1000.0, 300), ("walk", 1.0, 300)}
    assert len(calls) == 14
    assert all(row["torch_steps_per_second"] > 0 for row in result["speeds"])
