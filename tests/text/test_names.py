"""Objects by name: what counts as `module:name`, and errors that name the cause."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest

from evenroll.errors import SpecError
from evenroll.text.names import called, is_named, named, split_spec


@pytest.mark.parametrize("text", ["math:pi", "a.b:c.d"])
def test_module_and_name(text: str) -> None:
    assert is_named(text)


@pytest.mark.parametrize(
    "text", ["ros:alpha=1", "ale_py:ALE/Pong-v5", "module:Env-v0", "a/b.zip", "ros", "ros:", ":x", "a:b:c"]
)
def test_neither_a_path_nor_an_environment_nor_parameters(text: str) -> None:
    assert not is_named(text)


def test_a_name_and_its_parameters() -> None:
    assert split_spec("ros:alpha=1,beta=2") == ("ros", "alpha=1,beta=2")
    assert split_spec("mine:Mine:alpha=1,beta=2") == ("mine:Mine", "alpha=1,beta=2")
    assert split_spec("mine:Mine") == ("mine:Mine", "")
    assert split_spec("ros:alpha", {"ros"}) == ("ros", "alpha")
    assert split_spec("os") == ("os", "")


def test_an_object_is_found_in_a_module_or_in_the_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert named("math:pi") == math.pi
    assert named("pathlib:Path.home") == Path.home
    (tmp_path / "found_here.py").write_text("answer = 42\n")
    (tmp_path / "broken_here.py").write_text("1 / 0\n")
    monkeypatch.chdir(tmp_path)
    assert named("found_here:answer") == 42
    with pytest.raises(SpecError, match="broken_here cannot be imported: ZeroDivisionError"):
        named("broken_here:answer")


def test_a_file_of_the_current_directory_shadows_no_installed_module(tmp_path: Path) -> None:
    """Naming anything once used to put the current directory before all others, for every import that followed."""
    (tmp_path / "mine.py").write_text("answer = 42\n")
    for name in ("wave", "pyarrow"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'canary')!r}, 'w')\n")
    code = (
        "from evenroll.text.names import named; from evenroll.errors import SpecError; assert named('mine:answer') == 42\n"
        "import wave; assert hasattr(wave, 'Wave_read')\n"
        "try:\n    import pyarrow\nexcept ImportError: pass\n"
        "try:\n    named('wave:answer')\nexcept SpecError as error: print(error)"
    )
    run = subprocess.run([sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert "wave.py in this directory is not used: wave is an installed module; rename the file" in run.stdout
    assert not (tmp_path / "canary").exists()


def test_python_m_lets_the_current_directory_shadow_no_installed_module_either(tmp_path: Path) -> None:
    """Python puts it first there; evenroll is loaded, and puts it last."""
    (tmp_path / "mine.py").write_text("answer = 42\n")
    for name in ("numpy", "typer", "gymnasium", "numba"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'canary')!r}, 'w')\n")
    command = [sys.executable, "-m", "evenroll", "evaluate", "mine:answer", "--policy", "x.zip"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 2, run.stderr
    assert "mine:answer" in run.stderr, "it is found in the current directory, and is no environment"
    assert not (tmp_path / "canary").exists()


@pytest.mark.parametrize("text", ["no_such_module:x", "math:no_such_name"])
def test_what_is_not_there_is_named(text: str) -> None:
    with pytest.raises(SpecError, match=f"cannot find '{text}'"):
        named(text)


def test_what_a_function_raises_is_told() -> None:
    assert called("math:sqrt", lambda x: x + 1, x=1) == 2
    with pytest.raises(SpecError, match="the maker failed: ZeroDivisionError"):
        called("the maker", lambda: 1 / 0)
