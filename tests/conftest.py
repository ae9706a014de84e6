"""One base seed for all tests that leave something to chance: `--base-seed 7` moves every one of them, `--seeds 50` repeats
each under 50 base seeds. What such a test must say of itself: docs/testing.md; tests/test_hygiene.py checks it."""

from __future__ import annotations

import signal
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.browsers import started


def pytest_configure() -> None:
    """Tests send signals to children, which would ignore what we ignore, as a job in the background (nohup, &) does."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--base-seed", type=int, default=2026, help="base seed of all statistical tests")
    parser.addoption("--seeds", type=int, default=1, help="how many base seeds, from --base-seed on")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    first, seeds = metafunc.config.getoption("--base-seed"), metafunc.config.getoption("--seeds")
    if "base_seed" in metafunc.fixturenames and seeds > 1:
        metafunc.parametrize("base_seed", range(first, first + seeds), indirect=True, ids=lambda seed: f"seed{seed}")


@pytest.fixture
def base_seed(request: pytest.FixtureRequest) -> int:
    """The base seed, spread so that no two tests and no two base seeds use the same random numbers."""
    base = getattr(request, "param", request.config.getoption("--base-seed"))
    return int(np.random.SeedSequence([base, zlib.crc32(request.node.originalname.encode())]).generate_state(1)[0] >> 1)


@pytest.fixture(autouse=True)
def signals_as_they_were() -> Iterator[None]:
    """The command line catches signals. Run in the tests' own process, it must not catch pytest's."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        if signal.getsignal(number) is not handler:
            signal.signal(number, handler)


@pytest.fixture(scope="session")
def ppo() -> Any:
    """A little trained model of Stable-Baselines3 for CartPole-v1. Not every environment of the tests has the library."""
    import torch
    from stable_baselines3 import PPO

    torch.set_num_threads(1)  # small networks: threads only wait for each other
    return PPO("MlpPolicy", "CartPole-v1", n_steps=256, n_epochs=2, seed=0, device="cpu").learn(256)


@pytest.fixture(scope="module")
def chrome() -> Iterator[Any]:
    """One browser for a module's tests: to start it takes longer than most of them. It is not kept for all modules, because
    the event loop that playwright brings runs until it ends."""
    with started() as browser:
        yield browser
