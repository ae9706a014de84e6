"""Copies of the sources, a bug in each, and the tests that are run there. The working tree is never touched.

Machine code is kept beside the sources (`__pycache__`) under a digest of all of them, so that any bug would make everything
be compiled anew. A copy therefore has a finer stamp: a module's machine code counts as old where the bug stands in something
that is compiled, and the module is or imports the one with the bug. `stamps.json` says so, and the copy reads it.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from tools.mutants.bug import PACKAGE, ROOT, Bug

COPIED = ("src", "tests", "tools", "examples", "docs", "pyproject.toml", "README.md", "CONTRIBUTING.md", "Makefile")
PATIENCE = 6  # a busy machine gives the tests a part of its time only; a choice
COMPILES = ("njit", "helper", "piece", "intrinsic", "overload", "compiled")  # in a decorator: this becomes machine code
STAMP = "(compiled_sources_digest(), cache._cache_file._source_stamp)"
READ = '''

def stamp_of(module: str, plain: object) -> object:
    """Added by tools/mutants."""
    import json

    table = PACKAGE.parents[1] / "stamps.json"
    if not table.exists():
        return (compiled_sources_digest(), plain)
    stamps = json.loads(table.read_text())
    return stamps.get(module, stamps[""])
'''


@dataclass(frozen=True)
class Outcome:
    """`result` is "caught", "survives" or "time" (no test had failed when it was over); `test` is the first to fail."""

    result: str
    test: str
    seconds: float


def sound_copy(directory: Path) -> Path:
    """A copy of the working tree without a bug. Tests that are run in it fill its compile cache."""
    copy = directory / "sound"
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy2(source, copy / name)
    for file in ("engine/sources.py", "engine/pieces.py"):
        path = copy / "src" / "evenroll" / file
        path.write_bytes(with_finer_stamp(file, path.read_bytes()))
    (copy / "stamps.json").write_text(json.dumps(stamps()))
    return copy


def with_finer_stamp(file: str, text: bytes) -> bytes:
    if file == "engine/sources.py":
        return text + READ.encode()
    if file == "engine/pieces.py":
        text = text.replace(b"import compiled_sources_digest", b"import compiled_sources_digest, stamp_of")
        return text.replace(STAMP.encode(), b"stamp_of(function.__module__, cache._cache_file._source_stamp)")
    return text


@functools.cache
def _modules() -> dict[str, tuple[bytes, set[str]]]:
    """Of each module its text, and the modules that it reaches by its imports, itself among them."""
    paths = {".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts): path for path in PACKAGE.rglob("*.py")}
    texts = {module: path.read_bytes() for module, path in paths.items()}
    imported = {module: _imported(text) & set(texts) for module, text in texts.items()}
    found = {}
    for module, text in texts.items():
        reached, open_ = {module}, [module]
        while open_:
            new = imported[open_.pop()] - reached
            reached |= new
            open_ += new
        found[module] = text, reached
    return found


def _imported(text: bytes) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return names


def stamps(bug: Bug | None = None) -> dict[str, str]:
    """The stamp of every module's machine code; "" stands for code that is no part of the package."""
    texts = {module: text for module, (text, _) in _modules().items()}
    if bug is not None and is_compiled(bug):
        texts["evenroll." + bug.module.replace("/", ".")] = bug.planted()
    digests = {module: hashlib.sha256(text).hexdigest() for module, text in texts.items()}
    found = {
        module: hashlib.sha256("".join(digests[name] for name in sorted(reached)).encode()).hexdigest()
        for module, (_, reached) in _modules().items()
    }
    return found | {"": hashlib.sha256("".join(sorted(found.values())).encode()).hexdigest()}


def is_compiled(bug: Bug) -> bool:
    """Whether the bug may end up in machine code. When in doubt the answer is yes, which costs time only."""
    if bug.file.startswith("engine/"):
        return True
    line = bug.line
    for node in ast.parse(bug.source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.lineno <= line <= (node.end_lineno or 0):
            decorated = any(word in ast.unparse(decorator) for decorator in node.decorator_list for word in COMPILES)
            return decorated or node.name.endswith("_kernel")
    return True


def plant(bug: Bug, sound: Path, directory: Path) -> Path:
    """A copy with the bug in it. All other files are links to those of the sound copy, among them the machine code."""
    copy = directory / "planted"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(sound, copy, copy_function=os.link)
    path = copy / "src" / "evenroll" / bug.file
    path.unlink()
    path.write_bytes(with_finer_stamp(bug.file, bug.planted()))
    (copy / "stamps.json").unlink()
    (copy / "stamps.json").write_text(json.dumps(stamps(bug)))
    return copy


def keep_machine_code(planted: Path, sound: Path, bug: Bug) -> None:
    """Whatever was compiled beside the bug, and does not depend on it, is good for the copies that follow."""
    before, after = stamps(), stamps(bug)
    for path in (planted / "src").rglob("__pycache__/*.nb[ci]"):
        folder = path.parent.parent.relative_to(planted / "src").parts
        module = ".".join([*folder, path.name.split(".")[0]])
        kept = sound / path.relative_to(planted)
        if module in before and before[module] == after[module] and not (kept.exists() and path.samefile(kept)):
            kept.parent.mkdir(exist_ok=True)
            kept.unlink(missing_ok=True)
            os.link(path, kept)


def run(copy: Path, tests: tuple[str, ...], limit: float, without: Collection[str] = ()) -> Outcome:
    """Runs the tests up to the first that fails, and ends them, with whatever they have started, when the time is over.

    limit    seconds of the processor's time, so that what else the machine has to do is not taken for a bug; tests that wait
             for nothing are ended when `PATIENCE` times as many have passed
    without  tests that are left out, because they fail without any bug, too
    """
    env = {key: value for key, value in os.environ.items() if key != "NUMBA_CACHE_DIR"}
    env |= {"PYTHONPATH": str(copy / "src"), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-rfE", "-p", "no:cacheprovider", *tests]
    command += [f"--deselect={test}" for test in without]
    command = ["/bin/sh", "-c", f'ulimit -t {math.ceil(limit)}; exec "$@"', "sh", *command]
    started = time.perf_counter()
    out = (copy / "output.txt").open("w+")
    with out, subprocess.Popen(command, cwd=copy, env=env, stdout=out, stderr=out, start_new_session=True) as process:
        try:
            code = process.wait(PATIENCE * limit)
        except subprocess.TimeoutExpired:
            return Outcome("time", "", time.perf_counter() - started)
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        seconds = time.perf_counter() - started
        out.seek(0)
        text = out.read()
    if code == 0:
        return Outcome("survives", "", seconds)
    if code in (-signal.SIGXCPU, -signal.SIGKILL):
        return Outcome("time", "", seconds)
    failures = (line for line in text.splitlines() if line.startswith(("FAILED ", "ERROR ")))
    failed = [line.split(maxsplit=1)[1].split(" - ")[0] for line in failures]
    if failed:
        return Outcome("caught", failed[0], seconds)
    if code < 0 or "evenroll" in text:  # the bug ended the interpreter, or nothing could even be imported
        return Outcome("caught", f"pytest ended with {code}", seconds)
    raise SystemExit(f"the tests {' '.join(tests)} do not run:\n{text[-3000:]}")
