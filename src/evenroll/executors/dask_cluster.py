"""The workers of a dask cluster, and whom they must be proved to belong to.

dask unpickles whatever a scheduler or a worker sends, from the first message on, and unpickling runs code. There is no
harmless question to ask first: who is there has to be known *before* dask speaks. Three kinds of addresses say how:

dask://HOST:PORT              HOST is this machine, and the process that listens there belongs to the user of this process,
                              or to root. Such a process could do everything that we can, with or without dask.
tls://HOST:PORT               any machine. Both sides show certificates of one authority (TLS) before a message is read.
                              Which ones is said as dask does it: in its configuration, under `distributed.comm.tls`.
dask+unprotected://HOST:PORT  any machine, without a proof: whoever answers at this address, or can pretend to, may run code
                              here. For a network on which everybody is trusted.
"""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import os
import time
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, InvalidStateError
from pathlib import Path
from typing import Any

from evenroll.errors import EvenrollError, SpecError
from evenroll.executors.fingerprint import fingerprint

CONNECT = 30.0  # seconds to wait for a scheduler, which may just be starting again; a choice
TRIES = 3  # how often dask may fail to start its event loop; a choice
LISTENS = "0A"  # the state of a listening socket in /proc/net/tcp
SCHEMES = ("dask", "tls", "dask+unprotected")
Parts = tuple[Callable[[], Executor], Callable[[Executor], int], tuple[type[BaseException], ...]]


def cluster(scheme: str, address: str, workers: int | None, security: Any) -> Parts:
    """What a pool of the workers of a scheduler consists of: `make`, `width` and `lost` (see `pool.Pool`)."""
    if scheme not in SCHEMES or not address:
        known = ", ".join(f"{name}://HOST:PORT" for name in SCHEMES)
        raise SpecError(f"{scheme}://{address} is no address of a scheduler; known: {known}")
    try:
        from distributed import KilledWorker
        from distributed.comm.core import CommClosedError
    except ModuleNotFoundError:
        raise EvenrollError("a dask scheduler needs dask.distributed: pip install 'evenroll[dask]'") from None
    prove = _loopback(address) if scheme == "dask" else None
    certificates = _certificates(security) if scheme == "tls" else None
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # the pool handles a scheduler that went away

    def make() -> Executor:
        end = time.monotonic() + CONNECT
        while True:
            try:
                if prove is not None:
                    _check_owner(*prove)
                return _connect(f"{'tls' if certificates else 'tcp'}://{address}", certificates)
            except (OSError, TimeoutError, ValueError) as error:
                if time.monotonic() > end or isinstance(error, ValueError):
                    raise EvenrollError(f"no dask scheduler answers at {address}: {error}") from None
                time.sleep(0.5)

    def width(executor: Any) -> int:
        try:
            threads = sum(executor._client.nthreads().values())
        except (OSError, TimeoutError, RuntimeError):
            return 1
        return min(threads, workers or threads)

    return make, width, (KilledWorker, CommClosedError)


def _connect(address: str, security: Any) -> Executor:
    from distributed import Client
    from distributed.cfexecutor import ClientExecutor

    class OnCluster(ClientExecutor):
        """The client's own executor, except that its shutdown also closes the client, and that no future waits for ever."""

        def _wrap_future(self, future: Any) -> Future[Any]:
            """The future of concurrent.futures that ends as dask's does.

            dask's own way drops an exception that is raised while a finished result is fetched, as when the scheduler goes
            away just then. Its future would never end.
            """
            ours: Future[Any] = Future()
            ours.add_done_callback(lambda ours: future.cancel() if ours.cancelled() else None)
            self._client.loop.add_callback(_pass_on, future, ours)
            return ours

        def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
            with contextlib.suppress(OSError, TimeoutError, RuntimeError):
                super().shutdown(wait=wait and not cancel_futures)
            with contextlib.suppress(OSError, TimeoutError, RuntimeError):
                self._client.close(timeout=5 if wait else 0.3)

    client = _patient(lambda: Client(address, timeout=5.0, set_as_default=False, security=security))
    _same_code(client)
    return OnCluster(client, pure=False)


async def _pass_on(theirs: Any, ours: Future[Any]) -> None:
    """End our future as dask's ends. What is not the work's own error stood between us and its result, which is lost."""
    import asyncio  # it takes long to import, and dask has done so

    try:
        result = await theirs._result()
    except (Exception, asyncio.CancelledError) as error:
        end: Any = ours.set_exception
        result = error if theirs.status == "error" else BrokenExecutor(f"a result never came: {error!r}")
    else:
        end = ours.set_result
    with contextlib.suppress(InvalidStateError):  # ours was cancelled, so nobody waits for it
        end(result)


def _patient(make: Callable[[], Any]) -> Any:
    """What `make` gives. distributed asserts that its event loop starts within ten seconds; a busy machine takes longer."""
    for _ in range(TRIES):
        with contextlib.suppress(AssertionError):
            return make()
    raise EvenrollError("the event loop of dask does not start: this machine is too busy")


def _same_code(client: Any) -> None:
    """Refuse a scheduler that runs other code, because a scheduler unpacks the work that it hands on."""
    try:
        if client.run_on_scheduler(fingerprint) == fingerprint():
            return
    except ImportError:
        pass
    client.close()
    raise EvenrollError("the dask scheduler has not the same evenroll, Python and numpy: install the same lock file there")


# ---- who is there -----------------------------------------------------------------------------------------------


def _certificates(security: Any) -> Any:
    """What both sides must show. Half of it would leave one side unproved."""
    from distributed import Security

    if security is None:
        try:
            security = Security(require_encryption=True)
        except (ValueError, TypeError) as error:
            raise SpecError(f"dask's configuration of TLS cannot be used: {error}") from None
    missing = [n for n in ("tls_ca_file", "tls_client_cert", "tls_client_key") if not getattr(security, n)]
    if missing:
        raise SpecError(
            "tls:// needs certificates: set DASK_DISTRIBUTED__COMM__TLS__CA_FILE, "
            "DASK_DISTRIBUTED__COMM__TLS__CLIENT__CERT and DASK_DISTRIBUTED__COMM__TLS__CLIENT__KEY (docs/clusters.md)"
        )
    return security


def _loopback(address: str) -> tuple[str, int]:
    """(IP address, port) of an address on this machine's loopback; any other is refused, with what can be used instead."""
    host, _, port = address.rpartition(":")
    name = host.strip("[]")
    try:
        found = "127.0.0.1" if name == "localhost" else str(ipaddress.ip_address(name))
        number = int(port)
    except ValueError:
        found, number = "", 0
    if not found or not ipaddress.ip_address(found).is_loopback or not 0 < number < 65536:
        raise SpecError(
            f"dask://{address} is not on this machine (dask://127.0.0.1:PORT). A scheduler can run code in this process, so "
            f"one of another machine must prove itself: tls://{address} with certificates (docs/clusters.md). "
            f"On a network on which you trust everybody: dask+unprotected://{address}"
        )
    return found, number


def _check_owner(host: str, port: int) -> None:
    """Raise unless what listens on this port of the loopback belongs to our user or to root."""
    owners = _owners(port)
    if owners is None:
        raise EvenrollError(
            f"it cannot be found out here whose process listens at {host}:{port}: use tls://{host}:{port} with "
            f"certificates or, if you trust everybody on this machine, dask+unprotected://{host}:{port}"
        )
    if not owners:
        raise ConnectionRefusedError("nobody listens there")
    if not owners <= {0, os.getuid()}:
        raise EvenrollError(
            f"what listens at {host}:{port} belongs to another user of this machine, who could run code here"
        )


def _owners(port: int) -> set[int] | None:
    """The users whose sockets listen on a port of this machine, or None where Linux's lists of them are missing."""
    owners: set[int] = set()
    readable = False
    for table in ("tcp", "tcp6"):
        try:
            lines = Path("/proc/net", table).read_text().splitlines()[1:]
        except OSError:
            continue
        readable = True
        for line in lines:
            _, local, _, state, *rest = line.split()
            if state == LISTENS and int(local.partition(":")[2], 16) == port:
                owners.add(int(rest[3]))
    return owners if readable else None
