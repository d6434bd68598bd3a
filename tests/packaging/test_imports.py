"""Packages import only what the architecture allows, and no sooner than needed."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from hookline_server.cli.command import command_names

ROOT = Path(__file__).parents[2]
HEAVY = {"torch", "transformers", "tokenizers", "aiohttp", "zmq"}
LINT_IMPORTS = Path(sys.executable).with_name("lint-imports")


LIGHT = (
    "hookline",
    "hookline_kernels.runtime.allocator",
    "hookline_kernels.runtime.openmp",
    "hookline_kernels.runtime.kv_cache_prefaulter",
    "hookline_kernels.runtime.gc_freeze",
)
"""What processes import that compute nothing."""

MOST_MODULES_OF_HELP = 55
"""Of ours: the dispatcher, and a small module or two of each plugin."""


@pytest.mark.parametrize("module", LIGHT)
def test_import_is_light(module: str) -> None:
    """In a fresh interpreter it loads neither torch nor transformers."""
    code = f"import sys, {module}; print(*sys.modules)"
    command = [sys.executable, "-c", code]

    result = subprocess.run(command, check=True, capture_output=True, text=True)

    assert HEAVY & set(result.stdout.split()) == set()


def test_help_imports_no_package_of_a_command() -> None:
    """`hookline --help` names all commands, and imports what describes them alone."""
    code = (
        "import sys; from hookline_server.cli import main; main(['--help']);"
        "print(*sys.modules, file=sys.stderr)"
    )
    command = [sys.executable, "-c", code]

    result = subprocess.run(command, check=True, capture_output=True, text=True)

    ours = [each for each in result.stderr.split() if each.startswith("hookline")]
    assert all(f"\n  {name:<12}" in result.stdout for name in command_names())
    assert len(ours) <= MOST_MODULES_OF_HELP, ours
    assert {*HEAVY, "msgspec", "numpy", "argparse"}.isdisjoint(result.stderr.split())


def test_import_contracts_are_kept() -> None:
    """Imports between packages follow the contracts in pyproject.toml."""
    command = [str(LINT_IMPORTS), "--no-cache", "--no-logo"]
    uninstalled = str(ROOT / "plugins/scale/ray/src")

    result = subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": uninstalled},
    )

    assert result.returncode == 0, result.stdout + result.stderr


def test_import_contracts_cover_every_package() -> None:
    """A new package of the repository must join the import contracts."""
    table = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = table["tool"]["importlinter"]
    marked = [
        *ROOT.glob("*/src/*/py.typed"),
        *ROOT.glob("core/*/src/*/py.typed"),
        *ROOT.glob("plugins/*/*/src/*/py.typed"),
        *ROOT.glob("models/*/src/*/py.typed"),
        *ROOT.glob("tools/*/src/*/py.typed"),
    ]

    packages = {path.parent.name for path in marked}

    assert packages == set(contracts["root_packages"])
