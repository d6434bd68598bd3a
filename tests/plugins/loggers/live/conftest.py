"""An engine whose ring the live view reads."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hookline_testing.chromium import PROGRAM
from hookline_testing.debian_programs import needed_program
from hookline_testing.staged_engine import StagedEngine


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which the folder of rings is made."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


@pytest.fixture(scope="session")
def chromium() -> None:
    """Chromium is here, or the test is skipped, or has failed, as is fit."""
    needed_program(PROGRAM)


@pytest.fixture
def staged(folder: Path) -> Iterator[StagedEngine]:
    """An engine that runs four requests at once."""
    found = StagedEngine(folder)
    yield found
    found.loop.close()
