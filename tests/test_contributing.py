"""CONTRIBUTING.md is true: its files, copied as they stand there into a folder outside the package, do what it says."""

from __future__ import annotations

import importlib
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from numba import float64

import evenroll
from evenroll.adapters.loading import load_domain
from evenroll.collection.rollouts import Rollouts
from evenroll.engine.pieces import INTERPRETED
from evenroll.errors import NoEstimate
from evenroll.estimators import get_estimator
from evenroll.study.blocks import Block, Work
from evenroll.study.coverage import coverage
from evenroll.study.leaderboard import leaderboard
from evenroll.study.sources import reachable
from evenroll.study.true_value import truth, value_by_rollouts
from tests.test_architecture import LAYERS

TEXT = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text()
FILES = {block.split("\n", 1)[0][2:]: block for block in re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)}
COMMANDS = [line for block in re.findall(r"```console\n(.*?)```", TEXT, re.DOTALL) for line in block.splitlines()]
PNG = b"\x89PNG"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder outside the package with the files of CONTRIBUTING.md, from which Python imports."""
    place = tmp_path_factory.mktemp("outside")
    for name, text in FILES.items():
        (place / name).write_text(text)
    sys.path.insert(0, str(place))
    yield place
    sys.path.remove(str(place))
    for name in FILES:
        sys.modules.pop(name.removesuffix(".py"), None)


@pytest.fixture(scope="module")
def my_sampler(folder: Path) -> ModuleType:
    return importlib.import_module("my_sampler")


@pytest.fixture(scope="module")
def my_estimator(folder: Path) -> ModuleType:
    return importlib.import_module("my_estimator")


@pytest.fixture(scope="module")
def my_domain(folder: Path) -> ModuleType:
    return importlib.import_module("my_domain")


@pytest.fixture(scope="module")
def my_walk(folder: Path) -> ModuleType:
    return importlib.import_module("my_walk")


@pytest.fixture
def coin() -> evenroll.Policy:
    return evenroll.TabularSoftmax(np.zeros((3, 2)))


@pytest.fixture
def network() -> evenroll.Policy:
    rng = np.random.default_rng(0)
    return evenroll.MLP([(rng.normal(size=(8, 4)), np.zeros(8))], rng.normal(size=(2, 8)), np.zeros(2))


@pytest.fixture
def steering() -> evenroll.Policy:
    return evenroll.MLP([(np.ones((1, 1)), np.zeros(1))], [[0.0], [1.0]], [0.0, 0.5])


def same(a: Any, b: Any) -> None:
    np.testing.assert_array_equal(a.estimates, b.estimates)


# ---- the text ----------------------------------------------------------------------------------------------------


def test_the_map_is_the_map_of_the_package() -> None:
    rows = re.findall(r"^\| `(\w+)(?:/|\.py)` \|", TEXT, re.MULTILINE)
    assert tuple(rows) == LAYERS


def test_what_it_says_is_tested() -> None:
    assert set(FILES) == {"my_sampler.py", "my_estimator.py", "my_domain.py", "my_walk.py", "try_them.py"}
    assert len(COMMANDS) == 4
    assert all(command.startswith("evenroll ") for command in COMMANDS)


def run(folder: Path, *command: str) -> str:
    env = {**os.environ, "PYTHONPATH": str(Path(evenroll.__file__).parents[1])}
    done = subprocess.run([sys.executable, *command], cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_its_script_and_its_commands_run(folder: Path) -> None:
    """The commands come after the script, which writes the policy that they read."""
    out = run(folder, "try_them.py")
    assert "7.14286 (exact)" in out
    assert "mine:strength=0.5/median-of-means" in out
    assert out.count("(95 %") == 3  # ± or, where values are skewed, both ends
    picture = folder / "machine.png"
    assert picture.read_bytes().startswith(PNG)
    picture.unlink()
    first, second, third, fourth = (run(folder, "-m", "evenroll", *shlex.split(command)[1:]) for command in COMMANDS)
    assert "mine:strength=1/mc" in first
    assert "7.14286" in second
    assert "median-of-means" in second
    assert picture.read_bytes().startswith(PNG)
    assert "mine:strength=0.5/median_of_means" in third
    assert "mine:strength=0.5/score" in fourth


# ---- the sampler -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("domain", ["gridworld", "cartpole", "cartpole-continuous"])
def test_the_sampler_without_strength_is_on_policy_sampling(my_sampler: ModuleType, domain: str) -> None:
    result = evenroll.compare(domain, ["os/mc", my_sampler.Mine(0.0), my_sampler.Mine(1.0)], trials=3, budget=16)
    on_policy, without, with_ = result.curves
    same(on_policy, without)
    assert not np.array_equal(on_policy.estimates, with_.estimates)


def test_the_sampler_is_the_same_as_an_object_a_class_and_a_name(my_sampler: ModuleType) -> None:
    mc = get_estimator("mc")
    methods = [
        my_sampler.Mine(0.5), my_sampler.Mine, "my_sampler:Mine", "my_sampler:Mine:strength=0.5/mc",
        (my_sampler.Mine(0.5), "mc"), evenroll.Method(my_sampler.Mine(0.5), mc, initial=True), "init+my_sampler:Mine",
        ("init+my_sampler:Mine", mc),
    ]  # fmt: skip
    result = evenroll.compare("gridworld", methods, trials=3, budget=16, initial_episodes=5)
    assert [curve.method for curve in result.curves] == [*["mine:strength=0.5/mc"] * 5, *["init+mine:strength=0.5/mc"] * 3]
    for curve in result.curves[1:5]:
        same(result.curves[0], curve)
    for curve in result.curves[6:]:
        same(result.curves[5], curve)


def test_the_sampler_runs_in_environments(my_sampler: ModuleType, network: evenroll.Policy) -> None:
    """One environment, four side by side, and a torch-free network: without strength the same bits as on-policy."""

    def value(sampler: Any, lanes: int = 0) -> float:
        env = gym.make_vec("CartPole-v1", lanes, "sync") if lanes else "CartPole-v1"
        result = evenroll.evaluate(env, network, sampler=sampler, episodes=20)
        assert result.episodes == 20
        assert result.low is not None
        return result.value

    assert my_sampler.Mine.whole_trials_only is None
    assert value(my_sampler.Mine(0.0)) == value("os")
    assert value(my_sampler.Mine(0.3)) == value("my_sampler:Mine:strength=0.3") != value("os")
    assert value(my_sampler.Mine(0.0), 4) == value("os", 4)


def test_it_appears_in_a_figure(my_sampler: ModuleType, my_estimator: ModuleType, tmp_path: Path) -> None:
    methods = ["os/mc", my_sampler.Mine(0.5), (my_sampler.Mine(0.5), my_estimator.frugal)]
    study = evenroll.compare("gridworld", methods, trials=8, budget=16)
    figure = study.plot(tmp_path / "mine.png")
    assert (tmp_path / "mine.png").read_bytes().startswith(PNG)
    legend = figure.axes[0].get_legend()
    assert legend is not None
    names = [text.get_text() for text in legend.get_texts()]
    assert names[1:] == ["os/mc", "mine:strength=0.5/mc", "mine:strength=0.5/median-of-means"]
    assert all(name in str(study) for name in names[1:])


def test_coverage_and_leaderboard_take_objects_too(
    my_sampler: ModuleType, my_estimator: ModuleType, my_domain: ModuleType, coin: evenroll.Policy
) -> None:
    found = coverage(my_domain.machine(), my_sampler.Mine(0.5), policy=coin, episodes=40, repeats=3, workers=1)
    assert (found.domain, found.method) == ("machine", "mine:strength=0.5/mc")
    methods = ["os/mc", my_sampler.Mine(0.5), (my_sampler.Mine(0.5), my_estimator.frugal)]
    (board,) = leaderboard(["gridworld"], methods=methods, budgets=(16,), trials=3)
    assert {row.method for row in board.rows} == {"os/mc", "mine:strength=0.5/mc", "mine:strength=0.5/median-of-means"}


def test_its_results_can_be_kept(my_sampler: ModuleType) -> None:
    """What is stored of it hangs on its class, its file, and the files of the package that its file imports."""
    identity = Block(Work("gridworld", "init+my_sampler:Mine", ("mc",), (1.0,)), 0, 2).identity()
    assert identity["method"] == "init+my_sampler:Mine:strength=0.5"
    assert {"my_sampler", "evenroll.engine.views", "evenroll.samplers.interface"} <= reachable(my_sampler.Mine)


@pytest.mark.skipif(INTERPRETED, reason="nothing is compiled")
def test_editing_the_file_compiles_it_again(folder: Path) -> None:
    """Unless it is edited, machine code comes from the disk. After an edit the new code runs."""
    file = folder / "edited.py"

    def value(text: str) -> tuple[float, int, int]:
        if not file.exists() or file.read_text() != text:
            file.write_text(text)
        importlib.invalidate_caches()
        sys.modules.pop("edited", None)
        module = importlib.import_module("edited")
        found = evenroll.evaluate("bandit", sampler=module.Mine(1.0), episodes=50).value
        stats = module.choose.compile(float64).stats
        return found, sum(stats.cache_hits.values()), sum(stats.cache_misses.values())

    text = FILES["my_sampler.py"]
    without = text.replace("strength / math.sqrt", "0.0 * strength / math.sqrt")
    assert without != text
    first, again, edited = value(text), value(text), value(without)
    assert (first[1:], again[1:], edited[1:]) == ((0, 1), (1, 0), (0, 1))
    assert first[0] == again[0]
    assert edited[0] == evenroll.evaluate("bandit", sampler="os", episodes=50).value != first[0]


# ---- the estimator -----------------------------------------------------------------------------------------------


def test_the_estimator_by_hand(my_estimator: ModuleType, coin: evenroll.Policy) -> None:
    """Returns 0 … 9 in five pairs have the means 0.5, 2.5, 4.5, 6.5, 8.5; one wild return does not move their median."""
    returns = np.arange(10.0)
    returns[9] = 1e6
    data = Rollouts(1.0, 10, returns, np.arange(1, 11), np.ones(10, dtype=bool))
    assert my_estimator.median_of_means(data, coin) == 4.5
    assert get_estimator("my_estimator:frugal")(data, coin) == 4.5
    few = Rollouts(1.0, 4, returns[:4], np.arange(1, 5), np.ones(4, dtype=bool))
    with pytest.raises(NoEstimate, match="4 trajectories"):
        my_estimator.median_of_means(few, coin)


def test_the_estimator_is_the_same_as_an_object_and_a_name(my_sampler: ModuleType, my_estimator: ModuleType) -> None:
    methods = [
        ("os", my_estimator.median_of_means), ("os", my_estimator.frugal), "os/my_estimator:median_of_means",
        "os/my_estimator:frugal", ("os", "my_estimator:frugal"),
    ]  # fmt: skip
    result = evenroll.compare("gridworld", methods, trials=3, budget=16)
    for curve in result.curves[1:]:
        same(result.curves[0], curve)
    assert [curve.method for curve in result.curves[:2]] == ["os/median_of_means", "os/median-of-means"]
    assert get_estimator(my_estimator.median_of_means).needs == "steps"
    assert get_estimator("my_estimator:frugal").needs == "returns"


@pytest.mark.parametrize("domain", ["gridworld", "cartpole"])
def test_both_in_evaluate(my_sampler: ModuleType, my_estimator: ModuleType, domain: str) -> None:
    options = {"episodes": 50, "seed": 3}
    mine, function = my_sampler.Mine(0.5), my_estimator.median_of_means
    result = evenroll.evaluate(domain, sampler=mine, estimator=function, **options)
    named = evenroll.evaluate(domain, sampler="my_sampler:Mine", estimator="my_estimator:median_of_means", **options)
    assert (result.sampler, result.estimator, result.episodes) == ("mine:strength=0.5", "median_of_means", 50)
    assert (result.value, result.low, result.high) == (named.value, named.low, named.high)
    assert result.low is not None
    assert result.low <= result.value <= result.high


# ---- the domains -------------------------------------------------------------------------------------------------


def test_the_finite_domain_has_its_exact_value(my_domain: ModuleType, coin: evenroll.Policy) -> None:
    """By hand: a new machine earns (1 + 2)/2 a step and stays new for 1/0.3 steps, a worn one (0.5 + 1)/2 for 1/0.35."""
    known = truth(my_domain.machine(), coin)
    assert known.value == pytest.approx(1.5 / 0.3 + 0.75 / 0.35, rel=1e-12)
    assert known.mean_length == pytest.approx(1 / 0.3 + 1 / 0.35, rel=1e-12)
    assert known.value_se == 0.0
    gentle = evenroll.TabularSoftmax(np.array([[40.0, 0.0]] * 3))  # 1/0.1 steps at 1, then 1/0.2 steps at 0.5
    assert truth(my_domain.machine(), gentle).value == pytest.approx(12.5, rel=1e-6)
    found = load_domain("my_domain:machine")
    assert found is not None
    assert truth(found, coin) == known


def test_the_domain_with_its_own_dynamics(
    my_sampler: ModuleType, my_walk: ModuleType, steering: evenroll.Policy, tmp_path: Path
) -> None:
    """Named with a parameter it is the same domain, and it says so; other processes can make it too."""
    known = value_by_rollouts(my_walk.walk(push=0.3), steering, episodes=20_000)
    assert 0.0 < known.value < 1.0
    assert known.mean_length < value_by_rollouts(my_walk.walk(), steering, episodes=20_000).mean_length
    options = {"policy": steering, "value": known.value, "mean_length": known.mean_length, "trials": 4, "budget": 16}
    methods = ["os/mc", my_sampler.Mine(0.5)]
    result = evenroll.compare(my_walk.walk(push=0.3), methods, **options)
    named = evenroll.compare("my_walk:walk:push=0.3", methods, **options, executor="processes", workers=1)
    assert named.domain == "walk:push=0.3"
    for a, b in zip(result.curves, named.curves, strict=True):
        same(a, b)
    assert np.isfinite(result.curves[1].mse[-1])
