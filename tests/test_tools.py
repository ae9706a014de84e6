"""The long measurements in tools/ can be started: what they import from the package is still there."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[1] / "tools"


@pytest.mark.parametrize("name", sorted(path.stem for path in TOOLS.glob("*.py")))
def test_a_tool_finds_what_it_imports(name: str) -> None:
    for other in ("stable_baselines3", "sb3_contrib", "mujoco"):
        pytest.importorskip(other)
    importlib.import_module(f"tools.{name}")
