"""docs/structure.md follows from the import contracts."""

import re
from pathlib import Path
from types import ModuleType

import pytest

from hookline_testing.script_module import script_module

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def structure() -> ModuleType:
    """The script that renders the page."""
    return script_module(ROOT / "tools" / "structure.py")


@pytest.fixture(scope="module")
def rendered(structure: ModuleType) -> str:
    """What the script writes into the page."""
    text: str = structure.render(ROOT)
    return text


def test_structure_is_up_to_date(structure: ModuleType, rendered: str) -> None:
    """`python tools/structure.py` would not change the page."""
    page = (ROOT / "docs" / "structure.md").read_text("utf-8")

    assert structure.updated(page, rendered) == page


def test_every_package_has_a_row(structure: ModuleType, rendered: str) -> None:
    """Each package of the contracts has its layer and a purpose."""
    contracts = structure.read_contracts(ROOT)
    row = re.compile(r"^\| (\d+) \| `(\w+)` \| (.+) \|$", flags=re.MULTILINE)
    rows = row.findall(rendered)
    found = {name: (int(layer), purpose) for layer, name, purpose in rows}

    for layers in (contracts.house, contracts.core, contracts.engine):
        for height, names in enumerate(reversed(layers), 1):
            for name in names:
                layer, purpose = found[name]
                assert layer == height
                assert purpose.endswith(".")


def test_arrows_are_imports(structure: ModuleType, tmp_path: Path) -> None:
    """An arrow is an import, be it in a function; what follows from others has none."""
    sources = {
        "top": "import middle.part\nfrom base import name\n",
        "middle": "def run():\n    from base.inner import name\n",
        "base": '"""Says import top."""\nimport json\n',
    }
    roots = {name: tmp_path / name for name in sources}
    for name, source in sources.items():
        roots[name].mkdir()
        (roots[name] / "module.py").write_text(source, "utf-8")

    found = structure.read_imports([["top"], ["middle"], ["base"]], roots)

    assert found == {"top": {"middle"}, "middle": {"base"}, "base": set()}


def test_imports_of_higher_layers_are_shown(
    structure: ModuleType, tmp_path: Path
) -> None:
    """An exception of the contracts is an arrow, too."""
    roots = {name: tmp_path / name for name in ("top", "base")}
    for name, other in (("top", "base"), ("base", "top")):
        roots[name].mkdir()
        (roots[name] / "module.py").write_text(f"import {other}\n", "utf-8")

    found = structure.read_imports([["top"], ["base"]], roots)

    assert found == {"top": {"base"}, "base": {"top"}}


@pytest.mark.exhaustive
def test_a_changed_contract_makes_the_page_stale(
    structure: ModuleType, rendered: str, tmp_path: Path
) -> None:
    """A layer that moves in pyproject.toml changes the rendered part."""
    for name in (
        "core",
        "metrics",
        "offline",
        "processes",
        "registry",
        "server",
        "plugins",
        "models",
        "tools",
    ):
        (tmp_path / name).symlink_to(ROOT / name)
    source = (ROOT / "pyproject.toml").read_text("utf-8")
    moved = source.replace('    "step",\n', "").replace(
        '    "engine",\n', '    "step",\n    "engine",\n'
    )
    (tmp_path / "pyproject.toml").write_text(moved, "utf-8")

    assert structure.render(tmp_path) != rendered
