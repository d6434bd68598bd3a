"""Prometheus's programs, where there are any, and the files that they read."""

import os
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UNPACKED = Path(sys.prefix) / "prometheus" / "usr" / "bin"


def program(name: str) -> Path:
    """Returns a program of Prometheus; skips the test if it is missing."""
    path = os.pathsep.join((os.environ.get("PATH", ""), str(UNPACKED)))
    found = shutil.which(name, path=path)
    if found is None:
        pytest.skip(f"no {name} on PATH; tools/fetch_prometheus.sh gets it")
    return Path(found)


@pytest.fixture(scope="session")
def prometheus() -> Path:
    return program("prometheus")


@pytest.fixture(scope="session")
def promtool() -> Path:
    return program("promtool")


@pytest.fixture(scope="session")
def rules_folder() -> Path:
    return ROOT / "deploy" / "prometheus"
