"""One small random model for the tests of proposers."""

import pytest

from hookline_testing.oracle import Oracle, make_oracle


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Oracle:
    """One family, where the family does not matter."""
    return make_oracle("llama", tmp_path_factory.mktemp("llama"))
