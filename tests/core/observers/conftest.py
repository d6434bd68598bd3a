"""A folder for a test's own plugins."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hookline_testing import PluginSite


@pytest.fixture
def site(tmp_path: Path) -> Iterator[PluginSite]:
    """On the import path for the length of a test; holds the logger `recorder`."""
    folder = tmp_path / "site"
    folder.mkdir()
    with PluginSite(folder) as site:
        site.install_recorder()
        yield site
