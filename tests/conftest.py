"""One base seed for all statistical tests: `pytest --base-seed 7` moves every one of them."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--base-seed", type=int, default=2026, help="base seed of all statistical tests")


@pytest.fixture(scope="session")
def base_seed(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("--base-seed"))
