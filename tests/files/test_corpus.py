"""Malicious and broken files: each refused with exit code 2 and one line, at once, in little memory; no code runs."""

from __future__ import annotations

import ast
import pickle
import sys
import time
from pathlib import Path

import pytest

import evenroll
from evenroll.cli.app import main
from tests.files.corpus import BAD
from tests.files.corpus.valid import Bomb, valid

SECONDS, MEGABYTES = 5.0, 400


def run(arguments: list[str], monkeypatch, capsys) -> tuple[int, str]:
    """(exit code, standard error) of the command line."""
    monkeypatch.setattr(sys, "argv", ["evenroll", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    return int(stopped.value.code or 0), capsys.readouterr().err


def memory(what: str) -> int:
    """Megabytes: VmRSS now, VmHWM at most since the last reset."""
    line = next(x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith(what))
    return int(line.split()[1]) >> 10


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_refused(name: str, tmp_path: Path, monkeypatch, capsys) -> None:
    canary = tmp_path / "canary"
    arguments = BAD[name](tmp_path, canary)
    before = sorted(tmp_path.rglob("*"))
    Path("/proc/self/clear_refs").write_text("5")
    resident, started = memory("VmRSS"), time.perf_counter()
    code, said = run(arguments, monkeypatch, capsys)
    assert time.perf_counter() - started < SECONDS
    assert memory("VmHWM") - resident < MEGABYTES
    assert code == 2
    assert said.startswith("error: ")
    assert said.count("\n") == 1
    assert said.rstrip("\n").isprintable()
    assert len(said) < 1000
    assert not canary.exists()
    assert sorted(tmp_path.rglob("*")) == before


def test_there_are_enough_of_them() -> None:
    assert len(BAD) >= 30


def test_the_canary_is_alive(tmp_path: Path) -> None:
    """What the corpus hides in files does run when it is unpickled."""
    pickle.loads(pickle.dumps(Bomb(tmp_path / "canary")))
    assert (tmp_path / "canary").exists()


def test_the_good_ones_are_read(tmp_path: Path, monkeypatch, capsys) -> None:
    """What the bad files were made from is accepted, so that they are refused for what is wrong with them."""
    paths = {name: str(path) for name, path in valid(tmp_path).items()}
    for policy in ("policy", "sb3"):
        assert run(["evaluate", "CartPole-v1", "--policy", paths[policy], "--episodes", "3"], monkeypatch, capsys)[0] == 0
    for data in ("columns", "parquet", "minari"):
        assert run(["diagnose", paths[data], "--policy", paths["policy"]], monkeypatch, capsys)[0] == 0


# ---- the source --------------------------------------------------------------------------------------------------------

MODULES = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "yaml", "code", "runpy"}
CALLS = {"eval", "exec", "compile", "__import__"}
LOADS = {"np.load", "numpy.load", "np.fromfile", "pd.read_pickle", "torch.jit.load", "torch.package.PackageImporter"}
IMPORTS = {"loading.py", "__init__.py", "sources.py", "catalogue.py"}  # what the user names; our own modules


def test_no_file_can_make_code_run() -> None:
    """Nowhere in the package is anything called that executes what it reads."""
    package = Path(evenroll.__file__).parent
    found = []
    for path in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            where = f"{path.relative_to(package)}:{getattr(node, 'lineno', 0)}"
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            found += [f"{where} imports {name}" for name in names if name.split(".")[0] in MODULES]
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func)
            options = {option.arg: ast.unparse(option.value) for option in node.keywords}
            if (
                called in CALLS
                or called in LOADS
                or (called == "torch.load" and options.get("weights_only") != "True")
                or options.get("allow_pickle", "False") != "False"
                or options.get("weights_only", "True") != "True"
                or (called.endswith("import_module") and path.name not in IMPORTS)
            ):
                found.append(f"{where} calls {called}")
    assert found == []
