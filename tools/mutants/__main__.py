"""Plant bugs and report how many the tests catch.

    python -m tools.mutants                        the known bugs, and 60 drawn at random
    python -m tools.mutants --drawn --seed 7       60 others
    python -m tools.mutants --drawn --list         what would be planted

Every outcome is written to build/mutants at once; a run that was interrupted goes on where it stood. The exit code is 1 if a
known bug survives, or if less than 85 % of those drawn are caught. A bug with which the tests do not end counts as caught.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import sys
from dataclasses import asdict
from pathlib import Path

from tools.mutants.bug import ROOT, Bug
from tools.mutants.drawing import draw
from tools.mutants.known import MUTANTS, SEAMS
from tools.mutants.places import files_for
from tools.mutants.planting import Outcome, keep_machine_code, plant, run, sound_copy

GOAL = 0.85
LIMIT = 900.0  # seconds for the tests of a place


class Bench:
    """A sound copy, one with a bug, and a file of outcomes. A bug with a known outcome is not planted again."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.sound = directory, directory / "sound"
        self.file = directory / "outcomes.jsonl"
        self.unsound: list[str] = []  # tests that fail without any bug
        self.known: dict[str, dict[str, object]] = {}
        if self.file.exists():
            self.known = {line["key"]: line for line in map(json.loads, self.file.read_text().splitlines())}
        self.sources = _digest(b"".join(path.read_bytes() for path in sorted((ROOT / "src").rglob("*.py"))))
        stamp = directory / "sound-copy-of"
        if not self.sound.exists() or stamp.read_text() != self._copied():
            shutil.rmtree(self.sound, ignore_errors=True)
            directory.mkdir(parents=True, exist_ok=True)
            sound_copy(directory)
            stamp.write_text(self._copied())

    def _copied(self) -> str:
        tests = b"".join(path.read_bytes() for path in sorted((ROOT / "tests").rglob("*.py")))
        return _digest(self.sources.encode() + tests)

    def outcome(self, name: str, bug: Bug | None, tests: tuple[str, ...]) -> Outcome:
        """What came of a bug (None: of no bug), from the file of outcomes or from a run of the tests."""
        text = bug.planted() if bug is not None else self.sources.encode()
        key = _digest(b"\0".join([name.encode(), text, *((ROOT / test.split("::")[0]).read_bytes() for test in tests)]))
        if key in self.known:
            line = self.known[key]
            return Outcome(str(line["result"]), str(line["test"]), float(str(line["seconds"])))
        copy = self.sound if bug is None else plant(bug, self.sound, self.directory)
        outcome = run(copy, tests, LIMIT, self.unsound if bug is not None else ())
        if bug is not None:
            keep_machine_code(copy, self.sound, bug)
        self.known[key] = {"key": key, "name": name, **asdict(outcome)}
        with self.file.open("a") as file:
            file.write(json.dumps(self.known[key], ensure_ascii=False) + "\n")
        return outcome

    def try_bug(self, name: str, bug: Bug, tests: tuple[str, ...]) -> bool:
        """Whether the bug is caught, by a test that passes without it."""
        outcome = self.outcome(name, bug, tests)
        while outcome.result != "survives":
            failing = (outcome.test,) if "::" in outcome.test else tests
            if self.outcome(f"no bug: {outcome.test}", None, failing).result == "survives":
                break
            if outcome.test in self.unsound or "::" not in outcome.test:
                raise SystemExit(f"without any bug {' '.join(failing)} fails, too: nothing can be learnt")
            print(f"fails without any bug, and is left out: {outcome.test}", flush=True)
            self.unsound.append(outcome.test)
            outcome = self.outcome(f"{name} without {len(self.unsound)} tests", bug, tests)
        print(f"{outcome.result:8} {outcome.seconds:4.0f} s  {name}  {outcome.test}", flush=True)
        return outcome.result != "survives"


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()[:16]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--known", action="store_true", help="only the known bugs")
    parser.add_argument("--drawn", action="store_true", help="only bugs drawn at random")
    parser.add_argument("--seed", type=int, default=1, help="seed of the draw")
    parser.add_argument("--count", type=int, default=60, help="how many are drawn")
    parser.add_argument("--list", action="store_true", help="show the bugs and their tests, and plant none")
    parser.add_argument("--directory", type=Path, default=ROOT / "build" / "mutants", help="where copies and outcomes lie")
    arguments = parser.parse_args()
    known = () if arguments.drawn else (*MUTANTS, *SEAMS)
    drawn = [] if arguments.known else draw(arguments.seed, arguments.count)
    if arguments.list:
        for bug in drawn:
            print(f"{bug.kind:18} {bug.name}\n{'':18} {' '.join(files_for(bug.module))}")
        return 0
    bench = Bench(arguments.directory)
    caught = [bench.try_bug(mutant.name, mutant.bug(), mutant.places()) for mutant in known]
    found = [bench.try_bug(f"{bug.kind}: {bug.name}", bug, files_for(bug.module)) for bug in drawn]
    if known:
        print(f"{sum(caught)} of {len(caught)} known bugs caught")
    if drawn:
        print(f"{sum(found)} of {len(found)} bugs drawn with seed {arguments.seed} caught ({sum(found) / len(found):.0%})")
    return 0 if all(caught) and sum(found) >= GOAL * len(found) else 1


if __name__ == "__main__":
    sys.exit(main())
