"""Options of the soak tests; they need a test's path on the command line."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("soak")
    group.addoption("--soak-minutes", type=float, default=30.0)
    group.addoption("--soak-csv", help="file for the memory curve")
