"""Ctrl-C, SIGTERM and SIGHUP: the result so far is printed, the data kept, and the command that goes on is named."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from evenroll.cli import signals
from evenroll.collection.rollout_files import load_rollouts
from tests.helpers import command

# An environment that says when it has begun, and never tires; policies that need nothing but NumPy.
MINE = """
import sys, time
import gymnasium as gym, numpy as np
class Slow(gym.Wrapper):
    steps = 0
    def step(self, action):
        Slow.steps += 1
        if Slow.steps == 200:
            print("running", file=sys.stderr, flush=True)
        time.sleep(0.001)
        return super().step(action)
def env():
    return Slow(gym.make("CartPole-v1"))
def policy(observation):
    p = 1 / (1 + np.exp(-2 * (observation[2] + observation[3])))
    return [1 - p, p]
def other(observation):
    return [0.5, 0.5]
"""


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(MINE)
    return tmp_path


def stopped(number: int, *arguments: str, cwd: Path, wait: float = 0.0) -> tuple[subprocess.CompletedProcess[str], float]:
    """The command, to which a signal is sent when it has said "running". Returns how it ended, and the seconds that took."""
    child = subprocess.Popen(
        [sys.executable, "-m", "evenroll", *arguments], cwd=cwd, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert child.stderr is not None
    while "running" not in child.stderr.readline():
        assert child.poll() is None
    time.sleep(wait)
    sent = time.monotonic()
    child.send_signal(number)
    output, errors = child.communicate(timeout=60)
    return subprocess.CompletedProcess(arguments, child.returncode, output, errors), time.monotonic() - sent


def goes_on(run: subprocess.CompletedProcess[str]) -> list[str]:
    """The words of the command that the interrupted one names."""
    line = next(line for line in run.stderr.splitlines() if line.startswith("go on with: evenroll "))
    return shlex.split(line.removeprefix("go on with: evenroll "))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_evaluate_prints_keeps_and_goes_on(here: Path, number: int) -> None:
    asked = ("evaluate", "mine:env", "--policy", "mine:policy", "--episodes", "400", "--json", "r.json")
    run, _ = stopped(number, *asked, cwd=here, wait=0.3)
    assert run.returncode == 128 + number
    assert "Traceback" not in run.stderr
    assert ", interrupted" in run.stdout.splitlines()[0]
    found = json.loads((here / "r.json").read_text())
    assert found["interrupted"] is True
    kept = load_rollouts(here / "mine-env-partial.safetensors")
    assert 0 < kept.episodes == found["episodes"] < 400
    words = goes_on(run)
    assert words[words.index("--episodes") + 1] == str(400 - kept.episodes)
    words[words.index("--episodes") + 1] = "5"
    again = command(*words, cwd=here)
    assert again.returncode == 0, again.stderr
    result = json.loads((here / "r.json").read_text())
    assert (result["episodes"], result["interrupted"]) == (kept.episodes + 5, False)


def test_collect_keeps_beside_its_target_and_goes_on(here: Path) -> None:
    (here / "out").mkdir()
    asked = ("collect", "mine:env", "--policy", "mine:policy", "--episodes", "400", "--out", "out/a.parquet")
    run, _ = stopped(signal.SIGINT, *asked, cwd=here, wait=0.3)
    assert run.returncode == 130
    kept = load_rollouts(here / "out" / "mine-env-partial.safetensors")
    words = goes_on(run)
    assert int(words[words.index("--episodes") + 1]) + kept.episodes == 400
    words[words.index("--episodes") + 1] = "3"
    assert command(*words, cwd=here).returncode == 0
    assert load_rollouts(here / "out" / "a.parquet").episodes == kept.episodes + 3


def test_difference_goes_on_with_the_same_starts(here: Path) -> None:
    """Interrupted, and taken up again, it compares the starts that it would have compared in one go."""
    asked = ("difference", "mine:env", "--policy", "mine:policy", "--against", "mine:other", "--json", "r.json")
    run, _ = stopped(signal.SIGINT, *asked, "--episodes", "400", cwd=here, wait=0.3)
    assert run.returncode == 130
    assert json.loads((here / "r.json").read_text())["interrupted"] is True
    first = load_rollouts(here / "mine-env-partial.safetensors")
    words = goes_on(run)
    words[words.index("--episodes") + 1] = str(first.episodes + 4)
    assert command(*words, cwd=here).returncode == 0
    resumed = json.loads((here / "r.json").read_text())
    assert resumed["first"]["episodes"] == resumed["second"]["episodes"] == first.episodes + 4
    assert command(*asked, "--episodes", str(first.episodes + 4), cwd=here).returncode == 0
    at_once = json.loads((here / "r.json").read_text())
    assert at_once["second"]["value"] == resumed["second"]["value"]  # nothing of it was collected before the interrupt


IN_PYTHON = """
import sys, threading, time
import evenroll
from evenroll.collection.trial import Driver
if sys.argv[1] == "domain":
    evenroll.evaluate("cartpole", episodes=20)  # compiled
    advance = Driver._advance
    def told(self, *arguments):
        if self.balance.clock.episodes > 1000 and not told.done:
            told.done = True
            print("running", file=sys.stderr, flush=True)
        return advance(self, *arguments)
    told.done = False
    Driver._advance = told
    run = lambda: evenroll.evaluate("cartpole", episodes=10**9)
else:
    import mine
    run = lambda: evenroll.evaluate(mine.env(), mine.policy, episodes=400)
try:
    run()
except KeyboardInterrupt as stop:
    stopped = time.monotonic()
    assert isinstance(stop, evenroll.Interrupted)
    assert stop.rollouts.episodes > 0 and stop.rollouts.unfinished == 0
    print(stop.rollouts.episodes)
    if sys.argv[1] != "domain":  # that of hundreds of thousands of episodes takes a while
        assert stop.result.interrupted and stop.result.episodes == stop.rollouts.episodes
"""


@pytest.mark.parametrize("kind", ["domain", "environment"])
def test_in_python_the_interrupt_carries_what_was_collected(here: Path, kind: str) -> None:
    """A compiled loop is left within a second, too. Four are allowed: data is put together, and machines are shared."""
    child = subprocess.Popen(
        [sys.executable, "-c", IN_PYTHON, kind], cwd=here, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert child.stderr is not None
    while "running" not in child.stderr.readline():
        assert child.poll() is None
    time.sleep(0.5)
    sent = time.monotonic()
    child.send_signal(signal.SIGINT)
    output, errors = child.communicate(timeout=60)
    assert time.monotonic() - sent < 4.0
    assert child.returncode == 0, errors
    assert int(output) > 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_while_modules_are_loading_it_ends_at_once_and_quietly(number: int, tmp_path: Path) -> None:
    """Whenever the signal comes after Python's own start: here in the midst of Typer's import, then of Numba's."""
    for module, arguments in (("typer", ["--help"]), ("numba.core", ["evaluate", "bandit", "--episodes", "5"])):
        child = subprocess.Popen(
            [sys.executable, "-X", "importtime", "-m", "evenroll", *arguments], cwd=tmp_path, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert child.stderr is not None
        for line in child.stderr:
            if module in line:
                break
        child.send_signal(number)
        _, errors = child.communicate(timeout=30)
        assert child.returncode == 128 + number
        assert "Traceback" not in errors


def test_an_ignored_signal_stays_ignored(here: Path) -> None:
    """nohup means that the terminal may go."""
    child = subprocess.Popen(
        ["nohup", sys.executable, "-m", "evenroll", "evaluate", "mine:env", "--policy", "mine:policy", "--episodes", "15"],
        cwd=here, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert child.stderr is not None
    while "running" not in child.stderr.readline():
        assert child.poll() is None
    child.send_signal(signal.SIGHUP)
    output, errors = child.communicate(timeout=60)
    assert child.returncode == 0, errors
    assert "15 episodes" in output


def test_the_same_request_twice_is_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """A closing terminal and its shell send SIGHUP each, people press Ctrl-C twice; one that comes later means it."""
    monkeypatch.setattr(signals, "_received", [])
    monkeypatch.setattr(signals, "_insist", lambda number: None)
    signals.raise_from_now_on(keeps=True)
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGHUP)
    os.kill(os.getpid(), signal.SIGTERM)
    assert signals.exit_code() == 129
    os.kill(os.getpid(), signal.SIGINT)
    monkeypatch.setattr(signals, "ECHO", 0.0)
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGTERM)
    with signals.undisturbed():  # while data is being written only the third is heard
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_while_the_data_is_written_keeps_it(here: Path) -> None:
    """Again and again, too: at the end of `collect`, when all episodes are there and none is in a file yet."""
    (here / "slow.py").write_text(
        "import os, sys, time\n"
        "write = os.fsync\n"
        "def fsync(file):\n"
        "    print('writing', file=sys.stderr, flush=True)\n"
        "    time.sleep(0.8)\n"
        "    write(file)\n"
        "os.fsync = fsync\n"
        "from mine import env, policy\n"
    )
    asked = ["collect", "slow:env", "--policy", "slow:policy", "--episodes", "3", "--out", "a.parquet"]
    child = subprocess.Popen(
        [sys.executable, "-m", "evenroll", *asked], cwd=here, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert child.stderr is not None
    while "writing" not in child.stderr.readline():
        assert child.poll() is None
    for _ in range(3):
        child.send_signal(signal.SIGINT)
        time.sleep(0.7)
    _, errors = child.communicate(timeout=60)
    assert child.returncode == 130
    assert not (here / "a.parquet").exists()
    assert load_rollouts(here / "slow-env-partial.safetensors").episodes == 3, errors


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_machine_code_that_does_not_return_is_left(number: int) -> None:
    """The main thread hears nothing while it is in machine code: a command that keeps nothing ends all the same."""
    for mode, most in (("exit_at_once()", 1.0), ("raise_from_now_on()", signals.GRACE + 1.0)):
        code = f"""
import hashlib
from evenroll.cli import signals
signals.{mode}
print("started", flush=True)
hashlib.pbkdf2_hmac("sha256", b"", b"", 10**9)  # minutes
"""
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert child.stdout is not None
        assert child.stdout.readline() == "started\n"
        time.sleep(0.3)
        sent = time.monotonic()
        child.send_signal(number)
        _, errors = child.communicate(timeout=20)
        assert time.monotonic() - sent < most + 2.0, "on a machine that does much else"
        assert child.returncode == 128 + number
        assert errors == "interrupted\n"


def test_a_child_that_is_ended_does_not_end_its_parent() -> None:
    """Environments in processes of their own are forked, with our handlers, and are told to end by SIGTERM."""
    code = """
import os, signal, time
from evenroll.cli import signals
signals.exit_at_once()
child = os.fork()
if child == 0:
    time.sleep(20)
    os._exit(0)
time.sleep(0.2)
os.kill(child, signal.SIGTERM)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 143
time.sleep(0.3)
print("still here")
"""
    run = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=30)
    assert run.stdout == "still here\n"


LOST = """
import time
from evenroll.cli import signals

class Deaf:
    def __del__(self):  # what is raised here, Python ignores
        print("started", flush=True)
        end = time.monotonic() + 1.0
        while time.monotonic() < end:
            pass

signals.raise_from_now_on(keeps=True)
thing = Deaf()
try:
    del thing
    while True:
        time.sleep(0.01)
except KeyboardInterrupt:
    time.sleep(1.0)  # who handles it is left alone
    print("heard", flush=True)
"""


def test_an_interrupt_that_was_ignored_is_raised_again() -> None:
    child = subprocess.Popen([sys.executable, "-c", LOST], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "started\n"
    child.send_signal(signal.SIGINT)
    assert child.communicate(timeout=20)[0] == "heard\n"
