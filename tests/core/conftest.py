"""What tests of plugins of the core have in common."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hookline_testing.plugin_site import PluginSite


@pytest.fixture
def site(tmp_path: Path) -> Iterator[PluginSite]:
    """An empty folder of plugins, on the import path for the length of a test."""
    folder = tmp_path / "site"
    folder.mkdir()
    with PluginSite(folder) as made:
        yield made
