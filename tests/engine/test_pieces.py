"""Compiled pieces: no stale machine code, and a damaged cache only costs time."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import evenroll
from tests.helpers import full_disk


def test_editing_a_function_inlined_in_another_file_takes_effect(tmp_path: Path) -> None:
    """Numba's own cache looks only at the file of the outermost function; ours at the whole package."""
    shutil.copytree(Path(evenroll.__file__).parent, tmp_path / "evenroll", ignore=shutil.ignore_patterns("__pycache__"))
    code = (
        "import evenroll; print(evenroll.__file__); d = evenroll.get_domain('bandit'); e = d.environment(None)\n"
        "driver = evenroll.Driver(d.policy(), evenroll.OnPolicy(), (0,), gamma=1, horizon=1, record_steps=True)\n"
        "r = driver.run(e, steps=50)\n"
        "print(max(abs(r.rewards - e.params[1 + r.actions[:, 0].astype(int)])))"
    )
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}

    def noise() -> float:
        run = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        where, largest = run.stdout.split()
        assert where.startswith(str(tmp_path))
        return float(largest)

    assert noise() > 0.1
    numerics = tmp_path / "evenroll" / "engine" / "scalars.py"
    text = numerics.read_text()
    assert "    q = p - 0.5\n" in text
    numerics.write_text(text.replace("    q = p - 0.5\n", "    q = p - p\n"))  # every quantile becomes 0
    assert noise() == 0.0


def twice(x: float) -> float:
    return 2.0 * x


def test_a_damaged_cache_or_a_full_disk_only_costs_time(tmp_path, monkeypatch) -> None:
    """A crash may leave a torn cache behind, and on a full disk there is none; the code is compiled all the same."""
    from numba import float64
    from numba.core import config

    from evenroll.engine.pieces import compiled

    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    with full_disk():
        assert compiled(twice, float64(float64))(4.0) == 8.0
    assert not list(tmp_path.rglob("*.nb?"))
    assert compiled(twice, float64(float64))(4.0) == 8.0
    (index,) = tmp_path.rglob("*.nbi")
    for torn in (b"", index.read_bytes()[:40], b"no pickle"):
        index.write_bytes(torn)
        assert compiled(twice, float64(float64))(4.0) == 8.0
        assert compiled(twice, float64(float64)).stats.cache_hits == {}  # written again
        assert sum(compiled(twice, float64(float64)).stats.cache_hits.values()) == 1
