"""The working directory is not where modules come from, unless an option names one."""

import importlib
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from hookline_registry import BrokenPluginError, PluginRegistry, installed
from hookline_registry.import_path import safe_environment

GROUP = "toy.loggers"
LEAVE_OUT = (
    "import sys\n"
    "from hookline_registry.import_path import leave_out_working_directory\n"
    "print(leave_out_working_directory())\n"
    "try:\n"
    "    import toy_planted\n"
    "except ImportError:\n"
    "    print('left out')\n"
)
LOGGER = """
import toy_specs
from toy_beside import NAME


class Mine:
    @toy_specs.hookimpl
    def step_finished(self, step):
        return NAME
"""


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


def test_distributions_of_the_working_directory_are_not_found(
    install: Callable[..., None], here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interactive Python has it on its path, and it may hold anything."""
    install("toy-mine", entries={"mine": "toy_mine"})
    install("toy-evil", entries={"evil": "toy_evil"}, folder=here)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    importlib.invalidate_caches()

    assert [plugin.name for plugin in installed(GROUP)] == ["mine"]


def test_a_class_can_be_in_the_working_directory(
    here: Path, registry: PluginRegistry
) -> None:
    """With the modules beside it, and only while it is loaded."""
    (here / "toy_here.py").write_text(LOGGER)
    (here / "toy_beside.py").write_text("NAME = 'beside'")
    path = list(sys.path)

    registry.load_path("toy_here:Mine", lambda cls: cls())

    assert registry.call_one("toy_here:Mine", "step_finished", step=1) == ["beside"]
    assert sys.path == path
    with pytest.raises(ImportError):
        importlib.import_module("toy_planted")


def test_others_do_not_see_what_an_option_may(
    here: Path, registry: PluginRegistry
) -> None:
    """Another thread that imports meanwhile finds only what is installed."""
    (here / "toy_slow.py").write_text("class Mine: ...")
    found = []

    def look(_: type) -> object:
        thread = threading.Thread(
            target=lambda: found.append(importlib.util.find_spec("toy_planted"))
        )
        thread.start()
        thread.join()
        raise ValueError("it is no logger")

    with pytest.raises(BrokenPluginError):
        registry.load_path("toy_slow:Mine", look)

    assert found == [None]


def test_an_installed_class_imports_nothing_from_there(
    install: Callable[..., None], here: Path, registry: PluginRegistry
) -> None:
    """What it could import if it were installed is not taken from the folder."""
    module = "import toy_planted\nclass Mine: ...\n"
    install("toy-path", entries={}, modules={"toy_path": module})
    (here / "toy_path.py").write_text(LOGGER)

    with pytest.raises(BrokenPluginError, match="No module named 'toy_planted'"):
        registry.load_path("toy_path:Mine", lambda cls: cls())
