"""Each folder of sources has tests, and a command that runs them."""

from pathlib import Path

import pytest

from hookline_testing.folder_tests import find_tests

ROOT = Path(__file__).parents[3]


def folders() -> list[Path]:
    """Folders of sources that are packages."""
    tops = (
        "core",
        "metrics",
        "offline",
        "processes",
        "registry",
        "server",
        "plugins",
        "models",
        "tools",
    )
    found = {
        path.parent.relative_to(ROOT)
        for top in tops
        for path in (ROOT / top).rglob("src/**/*.py")
    }
    return sorted(found)


@pytest.mark.exhaustive
def test_each_folder_has_tests() -> None:
    """Those of its mirror, those that import from it, or those of the folder above."""
    missing = []
    for folder in folders():
        try:
            paths = find_tests(folder, ROOT)
        except ValueError as error:
            missing.append(str(error))
        else:
            assert all((ROOT / path).exists() for path in paths)

    assert len(folders()) > 60
    assert missing == []


@pytest.mark.parametrize(
    ("folder", "tests"),
    [
        ("plugins/loggers/prometheus", ["tests/plugins/loggers/prometheus"]),
        (
            "plugins/loggers/prometheus/src/hookline_prometheus",
            ["tests/plugins/loggers/prometheus"],
        ),
        ("core/src/hookline/scheduler", ["tests/core/scheduler"]),
        ("core/src/hookline/frontend", ["tests/core/front_end"]),
        ("metrics/src/hookline_metrics/families", ["tests/metrics"]),
        ("tests/registry", ["tests/registry"]),
    ],
)
def test_a_folder_is_mirrored(folder: str, tests: list[str], tmp_path: Path) -> None:
    """Sources are below `src` and the package's name; tests are not."""
    (tmp_path / folder).mkdir(parents=True)
    for each in tests:
        (tmp_path / each).mkdir(parents=True, exist_ok=True)

    assert [str(each) for each in find_tests(Path(folder), tmp_path)] == tests


def test_without_a_mirror_the_importing_tests_are_found(tmp_path: Path) -> None:
    """But not those that are about whole servers."""
    (tmp_path / "core/src/hookline/odd").mkdir(parents=True)
    for name, text in {
        "core/test_a.py": "from hookline.odd.one import x\n",
        "core/test_b.py": "from hookline.oddly import x\n",
        "hostile/test_c.py": "import hookline.odd\n",
    }.items():
        path = tmp_path / "tests" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    found = find_tests(Path("core/src/hookline/odd"), tmp_path)

    assert [str(each) for each in found] == ["tests/core/test_a.py"]


def test_a_folder_without_tests_is_an_error(tmp_path: Path) -> None:
    """So is one that does not exist."""
    (tmp_path / "deploy").mkdir()
    (tmp_path / "tests").mkdir()

    with pytest.raises(ValueError, match="no test is about deploy"):
        find_tests(Path("deploy"), tmp_path)
    with pytest.raises(ValueError, match="nothing does not exist"):
        find_tests(Path("nothing"), tmp_path)
