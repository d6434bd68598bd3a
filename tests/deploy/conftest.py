"""Programs, where there are any, and the files that they read."""

from pathlib import Path

import pytest

from hookline_testing.debian_programs import needed_program

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def helm() -> Path:
    return needed_program("helm")


@pytest.fixture(scope="session")
def prometheus() -> Path:
    return needed_program("prometheus")


@pytest.fixture(scope="session")
def promtool() -> Path:
    return needed_program("promtool")


@pytest.fixture(scope="session")
def rules_folder() -> Path:
    return ROOT / "deploy" / "prometheus"
