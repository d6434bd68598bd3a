"""Marks of the tests on a real vLLM, which `make test-vllm` runs."""

import pytest

from hookline_testing.vllm_server import VENV


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips them without an environment, and gives vLLM time to start."""
    for item in items:
        if item.get_closest_marker("vllm") is not None:
            item.add_marker(pytest.mark.timeout(600))
            if not VENV:
                reason = "only in `make test-vllm`"
                item.add_marker(pytest.mark.skip(reason=reason))
