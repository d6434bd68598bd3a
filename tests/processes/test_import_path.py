"""A command and its processes import nothing from where they run."""

import subprocess
import sys
from pathlib import Path

import pytest

from hookline_processes.import_path import safe_environment

LEAVE_OUT = (
    "import sys\n"
    "from hookline_processes.import_path import leave_out_working_directory\n"
    "print(leave_out_working_directory())\n"
    "try:\n"
    "    import toy_planted\n"
    "except ImportError:\n"
    "    print('left out')\n"
)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a module in it."""
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "toy_planted.py").write_text("")
    monkeypatch.chdir(folder)
    return folder


def run(*options: str, **variables: str) -> list[str]:
    """What a Python prints that leaves out its working directory."""
    done = subprocess.run(
        [sys.executable, *options, "-c", LEAVE_OUT],
        env=variables,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("path", "named"),
    [("", []), (":", []), (".", ["."]), ("/nowhere:", []), ("../here", ["../here"])],
)
@pytest.mark.usefixtures("here")
def test_a_command_imports_nothing_from_where_it_runs(
    path: str, named: list[str]
) -> None:
    """Neither by Python's own rule nor by entries of PYTHONPATH; those are told."""
    assert run(PYTHONPATH=path) == [str(named), "left out"]


def test_a_folder_that_is_named_is_used_from_anywhere(here: Path) -> None:
    """Whoever gives its whole path means it, and not where the process runs."""
    assert run(PYTHONPATH=str(here)) == ["[]"]
    assert run("-P", PYTHONPATH=f"{here}:") == ["[]"]


def test_children_are_given_no_relative_folders() -> None:
    """Neither of modules nor of libraries and programs; empty entries are such."""
    variables = {"PYTHONPATH": ":/a:b", "LD_LIBRARY_PATH": ":", "PATH": "/bin:.:/c"}

    safe = safe_environment({**variables, "HOME": "h"})

    expected = {"PYTHONPATH": "/a", "PATH": "/bin:/c", "PYTHONSAFEPATH": "1"}
    assert safe == {**expected, "HOME": "h"}
