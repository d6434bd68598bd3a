"""Archives of the repository's distributions, each built once for a test process."""

from collections.abc import Callable
from pathlib import Path

import pytest

from hookline_testing.distributions import read_distributions
from hookline_testing.release.building import build_one

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def archives(
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[str], tuple[Path, Path]]:
    """Builds the sdist and the wheel of a distribution, as a release does."""
    ours, built = read_distributions(ROOT), dict[str, tuple[Path, Path]]()
    folder = tmp_path_factory.mktemp("archives")

    def build(name: str) -> tuple[Path, Path]:
        if name not in built:
            built[name] = build_one(ours[name], ROOT, folder, "https://example.org/us")
        return built[name]

    return build
