"""The working directory is not where plugins come from, unless an option names one."""

import importlib
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from hookline_registry import BrokenPluginError, PluginRegistry, installed

GROUP = "toy.loggers"
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


@pytest.fixture
def registry(specs: ModuleType) -> PluginRegistry:
    return PluginRegistry("toy", specs)


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
