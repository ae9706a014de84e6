"""What is kept when a command does not come to its end: under a name of its own, where there is room, after the cause."""

from __future__ import annotations

import resource
import shlex
from pathlib import Path

import numpy as np
import pytest

from evenroll.cli.keeping import goes_on, keep, kept, places
from evenroll.collection.rollout_files import load_rollouts
from evenroll.errors import EnvironmentFault
from tests.helpers import command, full_disk, trial

FAILING = """
import gymnasium as gym, numpy as np
class Failing(gym.Wrapper):
    steps = 0
    def step(self, action):
        self.steps += 1
        if self.steps == {at}:
            {what}
        return super().step(action)
def env():
    return Failing(gym.make("CartPole-v1"))
class Wide(gym.ObservationWrapper):
    def __init__(self, size):
        super().__init__(env())
        self.size = size
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (size,), np.float32)
    def observation(self, x):
        return np.resize(x, self.size).astype(np.float32)
def wide():
    return Wide(300)
def huge():
    return Wide(3000)
def policy(observation):
    p = 1 / (1 + np.exp(-2 * (observation[2] + observation[3])))
    return [1 - p, p]
def decided(observation):
    return int(observation[2] + observation[3] > 0)
"""


def failing(folder: Path, what: str, at: int = 600) -> None:
    (folder / "mine.py").write_text(FAILING.format(what=what, at=at))


def test_an_environment_that_fails_twice_loses_nothing(tmp_path: Path) -> None:
    failing(tmp_path, 'raise RuntimeError("the motor is hot")')
    asked = ("evaluate", "mine:env", "--policy", "mine:policy", "--episodes", "100")
    for _ in range(2):
        run = command(*asked, cwd=tmp_path)
        assert run.returncode == 2
        assert any(line.startswith("error: RuntimeError") for line in run.stderr.splitlines())  # it may compile first
        assert "the motor is hot" in run.stderr
    first, second = (load_rollouts(tmp_path / f"mine-env-partial{n}.safetensors") for n in ("", "-2"))
    assert first.episodes == second.episodes > 0
    assert "mine-env-partial-2.safetensors" in run.stderr


@pytest.mark.parametrize("code", ["0", "3", "None"])
def test_an_environment_that_exits_has_failed(code: str, tmp_path: Path) -> None:
    failing(tmp_path, f"raise SystemExit({code})")
    run = command("evaluate", "mine:env", "--policy", "mine:policy", "--episodes", "100", cwd=tmp_path)
    assert run.returncode == 2
    assert run.stderr.startswith("error: SystemExit while collecting")
    assert load_rollouts(tmp_path / "mine-env-partial.safetensors").episodes > 0


def test_a_module_that_exits_when_it_is_imported_has_failed(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import sys\nsys.exit(0)\n")
    run = command("evaluate", "mine:env", "--policy", "mine:policy", cwd=tmp_path)
    assert run.returncode == 2
    assert "sys.exit(0)" in run.stderr


def test_observations_of_hundreds_of_numbers_are_kept_and_larger_ones_said_beforehand(tmp_path: Path) -> None:
    failing(tmp_path, 'raise RuntimeError("the motor is hot")')
    asked = ("--policy", "mine:policy", "--episodes", "100")
    run = command("evaluate", "mine:wide", *asked, cwd=tmp_path)
    assert "not kept" not in run.stderr
    kept_file = tmp_path / "mine-wide-partial.safetensors"
    assert load_rollouts(kept_file).column("observations").shape[1] == 300
    on = ("evaluate", "mine:wide", "--policy", "mine:policy", "--episodes", "3", "--initial-data", kept_file.name)
    assert command(*on, cwd=tmp_path).returncode == 0
    run = command("evaluate", "mine:huge", *asked, cwd=tmp_path)
    first, *rest = run.stderr.splitlines()
    assert first.startswith("Observations of 3,000 numbers are not kept here")
    assert rest[-1].startswith("error: RuntimeError")
    assert rest[-1].endswith("not kept: their observations are too large")
    assert not list(tmp_path.glob("mine-huge*"))


def test_data_of_a_deterministic_policy_goes_on(tmp_path: Path) -> None:
    failing(tmp_path, 'raise RuntimeError("the motor is hot")', at=900)
    asked = ("evaluate", "mine:env", "--policy", "mine:decided", "--episodes")
    assert command(*asked, "100", cwd=tmp_path).returncode == 2
    partial = ("--initial-data", "mine-env-partial.safetensors")
    run = command(*asked, "1", *partial, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    run = command("evaluate", "mine:env", "--policy", "mine:policy", "--episodes", "1", *partial, cwd=tmp_path)
    assert run.returncode == 0, run.stderr  # the actions of one are possible under the other


def test_where_the_folder_is_full_the_cause_is_told_and_the_next_place_is_tried(tmp_path: Path) -> None:
    data = trial("bandit", "os", episodes=50).finished()
    fault = EnvironmentFault("the motor is hot", rollouts=data)
    with full_disk():
        told = str(kept(fault, "mine:env", [tmp_path]))
    assert told.startswith("the motor is hot; they were not kept: cannot write")
    assert list(tmp_path.iterdir()) == []
    told = str(kept(fault, "mine:env", [tmp_path / "missing", tmp_path]))
    assert told == (
        f"the motor is hot; they were written to {tmp_path}/mine-env-partial.safetensors, to go on from with --initial-data "
        f"{shlex.quote(f'{tmp_path}/mine-env-partial.safetensors')}"
    )
    np.testing.assert_array_equal(load_rollouts(tmp_path / "mine-env-partial.safetensors").returns, data.returns)


def test_names_cannot_leave_their_folder_and_nothing_is_written_over(tmp_path: Path) -> None:
    data = trial("bandit", "os", episodes=5).finished()
    names = [keep(data, "../../etc/x", [tmp_path])[0], keep(data, "--", [tmp_path])[0], keep(data, "--", [tmp_path])[0]]
    assert [path.name for path in names if path is not None] == [
        "etc-x-partial.safetensors", "data-partial.safetensors", "data-partial-2.safetensors",
    ]  # fmt: skip
    assert all(path is not None and path.parent == tmp_path for path in names)


def test_places_are_beside_the_target_then_here(tmp_path: Path) -> None:
    assert places(tmp_path / "a.parquet")[:2] == [tmp_path, Path()]
    assert places("-", None)[0] == Path()


def test_the_command_that_goes_on() -> None:
    words = ["evaluate", "mine:env", "--initial-data", "a b.parquet", "--episodes=70", "--seed", "3"]
    assert goes_on(words, initial_data="x y", episodes=5) == (
        "evenroll evaluate mine:env --seed 3 --initial-data 'x y' --episodes 5"
    )
    assert goes_on(words, initial_data=None) == "evenroll evaluate mine:env --episodes=70 --seed 3"


def test_a_disk_that_fills_up_after_the_work_costs_neither_output_nor_data(tmp_path: Path) -> None:
    """The result is printed although its JSON cannot be written; the limit lets small files through, but no larger ones."""
    asked = ["evaluate", "bandit", "--episodes", "40", "--json", "r.json"]
    code = (
        "import resource, sys; from evenroll.files import safe_files; place = safe_files.try_place\n"
        "import evenroll.cli.app as app\n"
        "def once(*a, **k):\n    place(*a, **k); resource.setrlimit(resource.RLIMIT_FSIZE, (100, -1))\n"
        "safe_files.try_place = once\n"
        f"sys.argv = ['evenroll', *{asked!r}]; app.main()\n"
    )
    import subprocess
    import sys

    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    command("evaluate", "bandit", "--episodes", "40", cwd=tmp_path)  # compiled and cached while there is room
    run = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 2
    assert "40 episodes" in run.stdout
    assert run.stderr.startswith("error: cannot write r.json")
    assert not (tmp_path / "r.json").exists()


@pytest.mark.parametrize("kind", ["ours", "memory", "foreign"])
def test_what_fails_after_collecting_does_not_take_the_data_with_it(kind: str, tmp_path: Path) -> None:
    """An estimator that has no estimate, or needs more memory than there is: the episodes are what took the time."""
    failing(tmp_path, "pass")
    raised = {"ours": 'evenroll.errors.NoEstimate("no estimate")', "memory": "MemoryError()", "foreign": 'KeyError("why")'}
    (tmp_path / "estimators.py").write_text(
        "import evenroll, evenroll.errors\n"
        "from mine import env, policy\n"
        "import evenroll.evaluation.evaluate as e\n"
        f"def report(*_, **__): raise {raised[kind]}\n"
        "e.report = report\n"
    )
    run = command("evaluate", "estimators:env", "--policy", "mine:policy", "--episodes", "5", cwd=tmp_path)
    said = "the episodes were written to estimators-env-partial.safetensors, to go on from with --initial-data"
    assert said in run.stderr
    assert ("Traceback" in run.stderr) == (kind == "foreign")
    assert run.returncode == (1 if kind == "foreign" else 2)
    assert load_rollouts(tmp_path / "estimators-env-partial.safetensors").episodes == 5
