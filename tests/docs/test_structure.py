"""docs/structure.md follows from the import contracts."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def structure() -> ModuleType:
    """The script that renders the page."""
    path = ROOT / "tools" / "structure.py"
    spec = importlib.util.spec_from_file_location("structure", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_structure_is_up_to_date(structure: ModuleType) -> None:
    """`python tools/structure.py` would not change the page."""
    page = (ROOT / "docs" / "structure.md").read_text("utf-8")

    assert structure.updated(page, structure.render(ROOT)) == page


def test_every_package_has_a_row(structure: ModuleType) -> None:
    """Each package of the contracts has a purpose and the layers below it."""
    contracts = structure.read_contracts(ROOT)
    rows = [line.split(" | ") for line in structure.render(ROOT).splitlines()]
    purposes = {row[1].strip("`"): row[2] for row in rows if len(row) == 4}

    for layers in (contracts.house, contracts.core):
        for names in layers:
            assert all(purposes[name].endswith(".") for name in names)


def test_a_changed_contract_makes_the_page_stale(
    structure: ModuleType, tmp_path: Path
) -> None:
    """A layer that moves in pyproject.toml changes the rendered part."""
    for name in ("core", "metrics", "registry", "server", "plugins", "models", "tools"):
        (tmp_path / name).symlink_to(ROOT / name)
    source = (ROOT / "pyproject.toml").read_text("utf-8")
    moved = source.replace('    "step",\n', "").replace(
        '    "scheduler",\n', '    "step",\n    "scheduler",\n'
    )
    (tmp_path / "pyproject.toml").write_text(moved, "utf-8")

    assert structure.render(tmp_path) != structure.render(ROOT)
