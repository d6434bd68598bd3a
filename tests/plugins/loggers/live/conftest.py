"""An engine whose ring the live view reads."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hookline_testing.staged_engine import StagedEngine


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which the folder of rings is made."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def staged(folder: Path) -> Iterator[StagedEngine]:
    """An engine that runs four requests at once."""
    found = StagedEngine(folder)
    yield found
    found.loop.close()
