"""A dask scheduler must prove who it is before a word of it is unpickled, because unpickling runs code."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import evenroll.executors.dask_cluster as dask_cluster
from evenroll.errors import EvenrollError, SpecError
from evenroll.executors.pool import dask_pool, get_pool, in_order
from tests.helpers import ROOT, square

pytest.importorskip("distributed")
# A scheduler whose very first word, the greeting, is a pickle that makes a file.
HOSTILE = """
import asyncio, os, sys
import distributed.comm.tcp, tornado.platform.asyncio  # while files in the home of root can still be read
from distributed.comm import core, listen
from distributed.protocol.serialize import ToPickle
canary, host, user = sys.argv[1:]
class Bomb:
    def __reduce__(self):
        return open, (canary, "w")
greeting = {"compression": None, "python": (3, 11, 0), "pickle-protocol": 5, "x": ToPickle(Bomb())}
core.Comm.handshake_info = lambda self: dict(greeting)
async def main():
    async def handle(comm):
        await asyncio.sleep(60)
    listener = await listen(f"tcp://{host}:0", handle)
    print(listener.listen_address.rpartition(":")[2], flush=True)
    await asyncio.sleep(120)
if user != "own":
    os.setuid(int(user))
asyncio.run(main())
"""


@contextmanager
def hostile(canary: Path, host: str = "127.0.0.1", user: str = "own") -> Iterator[int]:
    """The port at which a hostile scheduler listens."""
    child = subprocess.Popen(
        [sys.executable, "-c", HOSTILE, str(canary), host, user],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert child.stdout is not None
    try:
        yield int(child.stdout.readline())
    finally:
        child.kill()
        child.wait()


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_cluster, "CONNECT", 0.1)


def test_a_hostile_greeting_runs_code_where_nobody_asks_for_a_proof(tmp_path: Path) -> None:
    """So the attack of the tests below is real, and `dask+unprotected` says what it allows."""
    with hostile(tmp_path / "canary") as port, pytest.raises(EvenrollError, match="no dask scheduler answers"):
        in_order(square, [1], get_pool(f"dask+unprotected://127.0.0.1:{port}"))
    assert (tmp_path / "canary").exists()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can start a process of another user")
def test_a_scheduler_of_another_user_is_not_spoken_to(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with hostile(tmp_path / "canary", user="65534") as port, pytest.raises(EvenrollError, match="belongs to another user"):
        in_order(square, [1], get_pool(f"dask://127.0.0.1:{port}"))
    assert not (tmp_path / "canary").exists()


@pytest.mark.parametrize(
    "address", ["192.0.2.1:8786", "scheduler:8786", "0.0.0.0:8786", "[2001:db8::1]:8786", "127.0.0.1", ":1"]
)
def test_another_machine_needs_a_proof(address: str) -> None:
    """It is refused before a connection is made, and told how to prove itself."""
    started = time.monotonic()
    with pytest.raises(SpecError, match=r"not on this machine.*tls://.*dask\+unprotected://"):
        get_pool(f"dask://{address}")
    assert time.monotonic() - started < 5.0


def test_a_scheduler_without_the_right_certificate_is_not_listened_to(tmp_path: Path) -> None:
    ours, theirs = certificate(tmp_path / "ours"), certificate(tmp_path / "theirs")
    with hostile(tmp_path / "canary") as port, pytest.raises(EvenrollError, match="no dask scheduler answers"):
        in_order(square, [1], dask_pool(f"tls://127.0.0.1:{port}", security=ours))
    with scheduler(theirs) as port, pytest.raises(EvenrollError, match="no dask scheduler answers"):
        in_order(square, [1], dask_pool(f"tls://127.0.0.1:{port}", security=ours))
    assert not (tmp_path / "canary").exists()


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:8786", "127.0.0.1:8786", "tls://", "ucx://127.0.0.1:8786"])
def test_no_other_address_is_taken_for_one_without_a_proof(address: str) -> None:
    with pytest.raises(SpecError, match="is no address of a scheduler"):
        dask_pool(address)


def test_certificates_must_be_given() -> None:
    with pytest.raises(SpecError, match="DASK_DISTRIBUTED__COMM__TLS__CA_FILE"):
        get_pool("tls://127.0.0.1:8786")


def test_work_is_done_by_a_cluster_of_our_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_cluster, "CONNECT", 60.0)
    security = certificate(tmp_path / "ours")
    with scheduler(security, workers=1) as port:
        assert in_order(square, [2, 3], dask_pool(f"tls://127.0.0.1:{port}", security=security)) == [4, 9]


def test_work_is_done_again_if_the_scheduler_dies_while_its_result_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    """dask's own executor drops the exception that this raises, and whoever waits for the result waits for ever."""
    from distributed import Client

    from tools.chaos import cluster

    monkeypatch.setattr(dask_cluster, "CONNECT", 60.0)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), *filter(None, sys.path)]))
    fetch, killed, found = Client._gather_remote, threading.Event(), list[int]()
    with cluster(1) as machines:

        async def fetch_from_the_dead(*arguments: Any) -> Any:
            if not killed.is_set():
                assert machines.scheduler is not None
                machines.scheduler.kill()
                machines.scheduler.wait()
                killed.set()
            return await fetch(*arguments)

        monkeypatch.setattr(Client, "_gather_remote", fetch_from_the_dead)
        pool = get_pool(f"dask://127.0.0.1:{machines.port}")
        driver = threading.Thread(target=lambda: found.extend(in_order(square, [2], pool)), daemon=True)
        driver.start()
        assert killed.wait(60.0)
        for _ in range(300):
            if not driver.is_alive():
                break
            machines.tend()  # the worker ends when it has lost its scheduler
            driver.join(0.2)
        assert found == [4]


def test_an_event_loop_that_starts_late_is_tried_again() -> None:
    """distributed raises an AssertionError then; an error of its own is passed on."""
    outcomes = iter([AssertionError(), AssertionError(), "a client"])

    def make() -> object:
        outcome = next(outcomes)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    assert dask_cluster._patient(make) == "a client"
    outcomes = iter([AssertionError()] * 3)
    with pytest.raises(EvenrollError, match="too busy"):
        dask_cluster._patient(make)
    outcomes = iter([OSError("nobody")])
    with pytest.raises(OSError, match="nobody"):
        dask_cluster._patient(make)


def test_an_absent_scheduler_is_one_clear_line() -> None:
    with pytest.raises(EvenrollError, match=r"no dask scheduler answers at 127.0.0.1:1: nobody listens there"):
        in_order(square, [1], get_pool("dask://127.0.0.1:1"))


# ---- certificates and schedulers ---------------------------------------------------------------------------------------


def certificate(folder: Path) -> object:
    """A certificate that is its own authority."""
    from distributed import Security

    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificates")
    folder.mkdir()
    key, cert = str(folder / "key.pem"), str(folder / "cert.pem")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "2",
         "-subj", "/CN=x"],
        check=True, capture_output=True,
    )  # fmt: skip
    return Security(
        tls_ca_file=cert, tls_client_cert=cert, tls_client_key=key, tls_scheduler_cert=cert, tls_scheduler_key=key,
        require_encryption=True,
    )  # fmt: skip


@contextmanager
def scheduler(security: object, workers: int = 0) -> Iterator[int]:
    """The port of a scheduler with this certificate, on loopback."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    files = [
        "--tls-ca-file",
        security.tls_ca_file,
        "--tls-cert",
        security.tls_client_cert,
        "--tls-key",
        security.tls_client_key,
    ]
    commands = [["scheduler", "--protocol", "tls", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard", *files]]
    commands += [["worker", f"tls://127.0.0.1:{port}", "--host", "127.0.0.1", "--nthreads", "1", "--no-nanny",
                  "--no-dashboard", *files]] * workers  # fmt: skip
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": env}
    children = [subprocess.Popen([sys.executable, "-m", f"distributed.cli.dask_{c[0]}", *c[1:]], **quiet) for c in commands]
    try:
        for _ in range(300):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield port
    finally:
        for child in children:
            child.kill()
            child.wait()
