"""Loggers in an observer process, and a folder for a test's own ones."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hookline_testing import PluginSite


@pytest.fixture
def site(tmp_path: Path) -> Iterator[PluginSite]:
    """On the import path for the length of a test; holds two recording loggers."""
    folder = tmp_path / "site"
    folder.mkdir()
    with PluginSite(folder) as site:
        site.install_recorder("here")
        site.install_recorder("there")
        yield site
