"""One small random model of each family, written once a module."""

import pytest

from hookline.testing.oracle import FAMILIES, Oracle, make_oracle


@pytest.fixture(scope="module", params=sorted(FAMILIES))
def oracle(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Oracle:
    """Each family in turn."""
    return make_oracle(request.param, tmp_path_factory.mktemp(request.param))
