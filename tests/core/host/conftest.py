"""A real control group, where one can be made."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from hookline_host.control_groups import groups_of

LIMIT_BYTES = 128 * 2**20
_FILES = ("memory.max", "memory.limit_in_bytes")


@pytest.fixture
def group_of_128_mib() -> Iterator[Path]:
    """A control group with a limit, for processes that end before the test does."""
    for parent in groups_of("memory"):
        group = parent.folder / f"hookline-test-{os.getpid()}"
        with suppress(OSError):
            group.mkdir()
            try:
                for file in (group / name for name in _FILES):
                    if file.exists():
                        file.write_text(str(LIMIT_BYTES))
                        yield group
                        return
            finally:
                group.rmdir()
    pytest.skip("no control group with a limit of memory can be made here")
