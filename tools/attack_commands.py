"""The second half of `make attack`: what goes wrong around a command, as a user meets it, each in a fresh directory.

    python -m tools.attack_commands [NAME …]

Files in the working directory that are named like packages, environments that fail, exit or fill the disk, places that
cannot be written, modes of files, hostile stores. Every attack starts real commands in child processes and says what it
found; what must not happen is an assertion. Full disks are small file systems in memory, which only root may mount;
elsewhere those attacks are left out and say so.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

SOURCE = str(Path(__file__).parents[1] / "src")
MINE = """
import os, sys, gymnasium as gym, numpy as np
steps = 0
class Failing(gym.Wrapper):
    def step(self, action):
        global steps
        steps += 1
        open("stepped", "a").close() if os.access(".", os.W_OK) and "QUIET" not in os.environ else None
        if steps == int(os.environ.get("FAIL_AT", "0")):
            exec(os.environ["FAIL_WITH"])
        return super().step(action)
class Wide(gym.ObservationWrapper):
    def __init__(self):
        super().__init__(env())
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (300,), np.float32)
    def observation(self, x):
        return np.resize(x, 300).astype(np.float32)
def env():
    return Failing(gym.make("CartPole-v1"))
def wide():
    return Wide()
def policy(observation):
    p = 1 / (1 + np.exp(-2 * (observation[2] + observation[3])))
    return [1 - p, p]
"""
HOT = {"FAIL_AT": "700", "FAIL_WITH": "raise RuntimeError('the motor is hot')"}
POLICY = ("--policy", "mine:policy")
SAFELY = ("-P",)  # as the command `evenroll` is started: the working directory is on no path


def run(
    *words: str, at: Path, python: tuple[str, ...] = SAFELY, before: Callable[[], None] | None = None, **env: str
) -> subprocess.CompletedProcess[str]:
    """The command, in a directory. A signal that ends it, or a traceback, is never allowed."""
    path = os.pathsep.join([SOURCE, *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, *python, "-m", "evenroll", *words], cwd=at, env={**os.environ, "PYTHONPATH": path, **env},
        capture_output=True, text=True, timeout=600, preexec_fn=before,
    )  # fmt: skip
    assert done.returncode in (0, 2, 129, 130, 143), (done.returncode, done.stderr[-2000:])
    assert "Traceback" not in done.stderr, done.stderr[-2000:]
    return done


def prepared(place: Path) -> Path:
    (place / "mine.py").write_text(MINE)
    return place


@contextlib.contextmanager
def small_disk(place: Path, size: str = "64k") -> Iterator[Path]:
    """A directory on a disk of its own, which is full soon."""
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)], capture_output=True).returncode:
        raise PermissionError("a small disk cannot be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def fill(place: Path) -> None:
    with contextlib.suppress(OSError), open(place / "filler", "wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


# ---- the attacks -------------------------------------------------------------------------------------------------------


def shadows(place: Path) -> str:
    """E4: files named like packages, in the working directory."""
    prepared(place)
    for name in ("pyarrow", "numpy", "torch", "minari", "matplotlib", "rich"):
        (place / f"{name}.py").write_text(f"open({str(place / 'canary')!r}, 'a')\n")
    for python in (SAFELY, ()):
        words = ("collect", "mine:env", *POLICY, "--episodes", "3", "--out", f"a{len(python)}.parquet")
        assert run(*words, at=place, python=python).returncode == 0
    assert not (place / "canary").exists()
    return "six packages not shadowed, by `evenroll` nor by `python -m evenroll`"


def fails_twice(place: Path) -> str:
    """E5: the second partial file must not overwrite the first."""
    words = ("evaluate", "mine:env", *POLICY, "--episodes", "100")
    first = run(*words, at=prepared(place), **HOT)
    before = (place / "mine-env-partial.safetensors").read_bytes()
    second = run(*words, "--seed", "5", at=place, **HOT)
    assert first.returncode == second.returncode == 2
    assert "the motor is hot" in second.stderr
    assert (place / "mine-env-partial.safetensors").read_bytes() == before
    assert (place / "mine-env-partial-2.safetensors").is_file()
    return "two files, the first as it was"


def goes_on_with_wide(place: Path) -> str:
    """E6: what is offered for --initial-data is taken, with observations of 300 numbers."""
    failed = run("evaluate", "mine:wide", *POLICY, "--episodes", "100", at=prepared(place), **HOT)
    assert "--initial-data mine-wide-partial.safetensors" in failed.stderr, failed.stderr
    words = ("--initial-data", "mine-wide-partial.safetensors", "--json", "r.json")
    on = run("evaluate", "mine:wide", *POLICY, "--episodes", "3", *words, at=place)
    assert on.returncode == 0, on.stderr
    return f"goes on: {json.loads((place / 'r.json').read_text())['episodes']} episodes in all"


def full_folder(place: Path) -> str:
    """E7: the working directory is full, the disk of --out is not."""
    prepared(place)
    with small_disk(place / "small") as small:
        fill(small)
        words = ("collect", "mine:env", *POLICY, "--episodes", "100", "--out", str(place / "a.parquet"))
        failed = run(*words, at=small, QUIET="1", PYTHONPATH=str(place), PYTHONDONTWRITEBYTECODE="1", **HOT)
        assert failed.stderr.startswith("error: RuntimeError"), failed.stderr
        assert (place / "mine-env-partial.safetensors").is_file()
        on = run(
            *words, "--initial-data", str(place / "mine-env-partial.safetensors"), at=small, QUIET="1", PYTHONPATH=str(place)
        )
        assert on.returncode == 0, on.stderr
    return "cause first, data beside --out, continued from there"


def fills_up(place: Path) -> str:
    """E17: the disk of --json and --out is full when the work is done; also one that fills up meanwhile."""
    prepared(place)
    with small_disk(place / "small", "1m") as small:
        filling = {"FAIL_AT": "50", "FAIL_WITH": f"from tools.attack_commands import fill, Path; fill(Path({str(small)!r}))"}
        path = os.pathsep.join([str(Path(__file__).parents[1]), str(place)])
        done = run(
            "evaluate",
            "mine:env",
            *POLICY,
            "--episodes",
            "20",
            "--json",
            f"{small}/r.json",
            at=place,
            PYTHONPATH=path,
            **filling,
        )
        assert done.returncode == 2
        assert "20 episodes" in done.stdout, (done.stdout, done.stderr)
        (small / "filler").unlink()
        words = ("collect", "mine:env", *POLICY, "--episodes", "60", "--out", f"{small}/a.parquet")
        done = run(*words, at=place, PYTHONPATH=path, **filling)
        assert done.returncode == 2
        assert "the episodes were written to mine-env-partial.safetensors" in done.stderr, done.stderr
    return "the result is printed, the episodes are written elsewhere"


def exits(place: Path) -> str:
    """E8: an environment that calls sys.exit(0)."""
    failed = run(
        "evaluate", "mine:env", *POLICY, "--episodes", "100", at=prepared(place), FAIL_AT="700", FAIL_WITH="sys.exit(0)"
    )
    assert failed.returncode == 2
    assert (place / "mine-env-partial.safetensors").is_file()
    return f"exit code 2: {failed.stderr.split(';')[0][:60]}"


def modes(place: Path) -> str:
    """E12: umask 077, and an existing file of mode 0600."""
    (place / "old.json").write_text("{}")
    (place / "old.json").chmod(0o600)
    for name, umask, expected in (("new.json", 0o077, 0o600), ("old.json", 0o022, 0o600), ("open.json", 0o022, 0o644)):
        done = run("value", "gridworld", "--json", name, at=place, before=lambda umask=umask: os.umask(umask))  # type: ignore[misc]
        assert done.returncode == 0, done.stderr
        assert (place / name).stat().st_mode & 0o777 == expected, name
    return "0600 stays 0600, umask 077 gives 0600, 022 gives 0644"


def beforehand(place: Path) -> str:
    """E17: whatever cannot be written is refused before the first step."""
    prepared(place)
    (place / "no_pyarrow").mkdir()
    (place / "no_pyarrow" / "sitecustomize.py").write_text(
        "import sys; sys.modules['pyarrow'] = sys.modules['minari'] = None\n"
    )
    asked = [
        ("evaluate", "--episodes", "5", "--plot", "x.png"), ("evaluate", "--episodes", "50", "--plot", "x.doc"),
        ("evaluate", "--episodes", "5", "--json", "nodir/x.json"), ("collect", "--out", "nodir/x.minari"),
        ("collect", "--out", "x.txt"), ("collect", "--out", "/proc/x.parquet"),
    ]  # fmt: skip
    for command, *rest in asked:
        done = run(command, "mine:env", *POLICY, *rest, at=place)
        assert done.returncode == 2, (command, rest, done.stdout)
    for name in ("x.parquet", "x.minari"):
        path = os.pathsep.join([str(place / "no_pyarrow"), str(place)])
        done = run("collect", "mine:env", *POLICY, "--out", name, at=place, PYTHONPATH=path)
        assert done.returncode == 2, (name, done.stdout)
        assert "pyarrow" in done.stderr, done.stderr
    assert not (place / "stepped").exists()
    return f"{len(asked) + 2} refused, no step taken"


def stores(place: Path) -> str:
    """E13, E19: names that control the terminal, links that lead out, in a store."""
    store, outside = place / "store", place / "outside"
    (store / "ab").mkdir(parents=True)
    outside.mkdir()
    (outside / "precious").write_text("old")
    (store / "ab" / "\x1b]0;owned\x07\x1b[2J.parquet").write_bytes(b"no block")
    (store / "ab" / "link.parquet").symlink_to(outside / "precious")
    (store / "cd").symlink_to(outside)
    (store / "aside").symlink_to(outside)
    done = run("results", str(store), at=place)
    text = done.stdout + done.stderr
    assert not any(ord(c) < 32 and c not in "\n\t" for c in text), repr(text)
    assert sorted(p.name for p in outside.iterdir()) == ["precious"], list(outside.iterdir())
    assert (outside / "precious").read_text() == "old"
    return f"exit code {done.returncode}, no control character, nothing outside touched"


def overwrites(place: Path) -> str:
    """E20: `train` must not write over a file that nobody named."""
    (place / "gridworld.safetensors").write_text("precious")
    done = run("train", "gridworld", "--episodes", "16", at=place)
    assert done.returncode == 2
    assert (place / "gridworld.safetensors").read_text() == "precious"
    return "refused, the file is as it was"


def no_room_for_files(place: Path) -> str:
    """A limit of the system on the size of files (RLIMIT_FSIZE), whose signal must not end the command."""
    before = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))  # noqa: E731
    environment = {"PYTHONDONTWRITEBYTECODE": "1", "QUIET": "1"}
    failed = run(
        "evaluate", "mine:env", *POLICY, "--episodes", "100", at=prepared(place), before=before, **environment, **HOT
    )
    assert failed.returncode == 2
    assert failed.stderr.startswith("error: RuntimeError"), failed.stderr
    assert not list(place.glob("*partial*"))
    done = run(
        "evaluate", "mine:env", *POLICY, "--episodes", "12", "--json", "r.json", at=place, before=before, **environment
    )
    assert done.returncode == 2
    assert "cannot write r.json" in done.stderr, "refused before collecting: the place was tried"
    return "the cause comes first; a result that could not be written is refused beforehand"


def interrupted_while_failing(place: Path) -> str:
    """Three signals in a row at a command that is just collecting: the data is kept, and the exit code is the first's."""
    prepared(place)
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", "evenroll", "evaluate", "mine:env", *POLICY, "--episodes", "1000000"], cwd=place,
        env={**os.environ, "PYTHONPATH": SOURCE}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while not (place / "stepped").exists():
        assert child.poll() is None
        time.sleep(0.05)
    time.sleep(3.0)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        child.send_signal(number)
        time.sleep(0.05)
    _, errors = child.communicate(timeout=120)
    assert child.returncode == 143, (child.returncode, errors[-500:])
    assert (place / "mine-env-partial.safetensors").is_file(), errors[-500:]
    return "kept once, exit code 143"


ATTACKS: dict[str, Callable[[Path], str]] = {
    "E4 packages in the working directory": shadows,
    "E5 an environment that fails twice": fails_twice,
    "E6 wide observations go on": goes_on_with_wide,
    "E7 a full working directory": full_folder,
    "E8 an environment that exits": exits,
    "E12 modes of files": modes,
    "E13, E19 a hostile store": stores,
    "E17 refused beforehand": beforehand,
    "E17 a disk that fills up": fills_up,
    "E17 a limit on files": no_room_for_files,
    "E20 train overwrites": overwrites,
    "signals in a row": interrupted_while_failing,
}


def attacks(names: list[str]) -> int:
    """Carry them out and print a row for each. Returns how many were not held off."""
    lost = 0
    print("| attack | came of it |\n|---|---|")
    for name in names or ATTACKS:
        with tempfile.TemporaryDirectory() as place:
            try:
                came: Any = ATTACKS[name](Path(place))
            except PermissionError as error:
                came = f"left out: {error}"
            except (AssertionError, OSError, subprocess.TimeoutExpired) as error:
                lost += 1
                came = f"FAILED: {type(error).__name__} {str(error)[:1500]}"
        print(f"| {name} | {came} |", flush=True)
    return lost


if __name__ == "__main__":
    chosen = [name for name in ATTACKS if not sys.argv[1:] or any(word in name for word in sys.argv[1:])]
    raise SystemExit(1 if attacks(chosen) else 0)
