"""Compiled pieces: no stale machine code, quantiles and exponentials to the last digits, streams apart."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba import njit
from scipy import special

import evenroll
from evenroll.engine.random import stream, uniform
from evenroll.engine.scalars import exp_negative, normal_quantile


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
    numerics = tmp_path / "evenroll" / "numerics.py"
    text = numerics.read_text()
    assert "    q = p - 0.5\n" in text
    numerics.write_text(text.replace("    q = p - 0.5\n", "    q = p - p\n"))  # every quantile becomes 0
    assert noise() == 0.0


@njit
def _map(f, x):
    y = np.empty_like(x)
    for i in range(len(x)):
        y[i] = f(x[i])
    return y


def test_normal_quantile() -> None:
    p = np.concatenate([np.linspace(1e-6, 1 - 1e-6, 100_001), 10.0 ** -np.arange(1, 300, 3), [0.5, 2.0**-53]])
    np.testing.assert_allclose(_map(normal_quantile, p), special.ndtri(p), rtol=5e-15, atol=1e-15)


def test_exp_negative() -> None:
    x = -np.concatenate([np.linspace(0, 700, 500_001), [0.0, 1e-300, 707.9, 708.1, 800.0, np.inf]])
    np.testing.assert_allclose(_map(exp_negative, x), np.where(x > -708, np.exp(x), 0.0), rtol=1e-15)


@pytest.mark.statistical
def test_uniform_numbers_are_uniform_and_streams_differ(base_seed: int) -> None:
    """Kolmogorov's distance of 10⁵ numbers below 2.4/√n, twice: 4e-5; two of 2·10⁵ numbers of 53 bits agree with 1e-6.
    P(false) ≤ 5e-5. Catches a distribution function off by 0.8 % anywhere, streams that meet, numbers of 32 bits."""
    a, b = stream(base_seed, 0), stream(base_seed, 1)
    x, y = (np.sort([uniform(s) for _ in range(100_000)]) for s in (a, b))
    for numbers in (x, y):
        assert numbers[0] > 0
        assert numbers[-1] < 1
        assert np.abs(numbers - np.arange(1, 100_001) / 100_000).max() < 2.4 / np.sqrt(100_000)
    assert not np.intersect1d(x, y).size


@pytest.mark.parametrize("path", [(0,), (0, 1), (2**40, 3)])
def test_streams_depend_on_nothing_but_their_path(path: tuple[int, ...]) -> None:
    np.testing.assert_array_equal(stream(*path), stream(*path))
    assert not np.array_equal(stream(*path), stream(*path, 0))


def twice(x: float) -> float:
    return 2.0 * x


def test_a_damaged_cache_or_a_full_disk_only_costs_time(tmp_path, monkeypatch) -> None:
    """A crash may leave a torn cache behind, and on a full disk there is none; the code is compiled all the same."""
    from numba import float64
    from numba.core import config

    from evenroll.engine.pieces import compiled
    from tests.test_writing import full_disk

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
