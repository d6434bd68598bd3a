"""Prometheus's programs, where there are any, and the files that they read."""

from pathlib import Path

import pytest

from hookline_testing.prometheus_process import find_program

ROOT = Path(__file__).parents[2]


def program(name: str) -> Path:
    """Returns a program of Prometheus; skips the test if it is missing."""
    found = find_program(name)
    if found is None:
        pytest.skip(f"no {name} on PATH; tools/fetch_program.sh gets it")
    return found


@pytest.fixture(scope="session")
def prometheus() -> Path:
    return program("prometheus")


@pytest.fixture(scope="session")
def promtool() -> Path:
    return program("promtool")


@pytest.fixture(scope="session")
def rules_folder() -> Path:
    return ROOT / "deploy" / "prometheus"
