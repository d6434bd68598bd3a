"""A folder for a test's own plugins."""

import pytest

from hookline_testing import PluginSite


@pytest.fixture
def site(site: PluginSite) -> PluginSite:
    """On the import path for the length of a test; holds the logger `recorder`."""
    site.install_recorder()
    return site
