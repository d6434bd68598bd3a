"""One small random model of each family, written once a module."""

import pytest

from hookline_testing.essential import essential
from hookline_testing.oracle import ESSENTIAL_FAMILIES, FAMILIES, Oracle, make_oracle


@pytest.fixture(scope="module", params=essential(sorted(FAMILIES), *ESSENTIAL_FAMILIES))
def family(request: pytest.FixtureRequest) -> str:
    """Each in turn."""
    found: str = request.param
    return found


@pytest.fixture(scope="module")
def oracle(family: str, tmp_path_factory: pytest.TempPathFactory) -> Oracle:
    """The family's."""
    return make_oracle(family, tmp_path_factory.mktemp(family))
