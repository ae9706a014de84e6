"""How work is cut so that no compiled call takes long."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from evenroll.engine import pace
from evenroll.engine.pace import FIRST, LONGEST, MOST, Pace, in_parts, insisting, patiently
from tests.engine.entrances import network


def test_the_first_call_is_small_where_a_step_is_large() -> None:
    assert Pace(1).steps == MOST
    assert Pace(FIRST // 4).steps == 4
    assert Pace(10**12).steps == 1


def test_calls_grow_while_they_are_quick_and_begin_anew_after_a_slow_one() -> None:
    own = Pace(FIRST // 4)
    own.took(LONGEST / 100)
    assert own.steps == 8
    own.took(LONGEST / 3)
    assert own.steps == 16
    own.took(LONGEST * 0.9)
    assert own.steps == 16
    own.took(LONGEST * 2)
    assert own.steps == 4


def test_the_parts_are_all_the_rows_once_and_whole_blocks() -> None:
    parts = list(in_parts(1000, FIRST // 4, block=7))
    assert [row for first, last in parts for row in range(first, last)] == list(range(1000))
    assert all((last - first) % 7 == 0 for first, last in parts[:-1])
    assert list(in_parts(0, 1)) == []


def test_uncut_work_is_done_in_another_thread_where_it_is_large() -> None:
    large = np.eye(500)
    assert patiently(lambda x: threading.current_thread() is threading.main_thread(), large) is False
    assert patiently(lambda x: threading.current_thread() is threading.main_thread(), np.eye(5)) is True
    with np.errstate(all="ignore"):  # the same settings hold there
        assert patiently(lambda x: np.geterr()["divide"], large) == "ignore"
    with pytest.raises(np.linalg.LinAlgError):
        patiently(np.linalg.solve, np.zeros((500, 500)), np.ones(500))


def test_ctrl_c_is_heard_while_machine_code_runs_beside() -> None:
    code = """
import hashlib, os
from evenroll.engine.pace import beside
print("started", flush=True)
try:
    beside(hashlib.pbkdf2_hmac, "sha256", b"", b"", 10**9)  # minutes
except KeyboardInterrupt:
    print("heard", flush=True)
    os._exit(0)
"""
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "started\n"
    time.sleep(0.3)
    child.send_signal(signal.SIGINT)
    assert child.communicate(timeout=20)[0] == "heard\n"


def test_while_a_module_is_imported_nothing_runs_beside(tmp_path) -> None:
    """The other thread might need the module, whose lock the import holds until it is done: neither would go on."""
    (tmp_path / "imports_itself.py").write_text(
        "from evenroll.engine.pace import beside\nbeside(__import__, 'imports_itself')\nanswer = 42\n"
    )
    code = "import imports_itself; print(imports_itself.answer)"
    run = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert run.stdout == "42\n", run.stderr


def test_results_do_not_depend_on_the_cuts(monkeypatch) -> None:
    policy, rng = network(), np.random.default_rng(0)
    seen, taken = rng.normal(size=(500, 4)), rng.integers(2, size=(500, 1)).astype(np.float64)
    whole = policy.score_sum(seen, taken), policy.features(seen)
    monkeypatch.setattr(pace, "FIRST", 1)
    np.testing.assert_array_equal(whole[0], policy.score_sum(seen, taken))
    np.testing.assert_array_equal(whole[1], policy.features(seen))


def test_an_interrupt_that_was_swallowed_is_raised_again() -> None:
    """Within `insisting` it is raised at once, as ever; if it is ignored there, it is raised once more at the end."""
    seen = []

    def swallow() -> None:
        with insisting():
            try:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(1.0)
            except KeyboardInterrupt:
                seen.append("at once")
        seen.append("never")

    with pytest.raises(KeyboardInterrupt):
        swallow()
    assert seen == ["at once"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_whoever_handles_interrupts_keeps_doing_so() -> None:
    heard = []
    before = signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    try:
        with insisting():
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard == [signal.SIGINT]
    with insisting():
        pass
