"""Modules that have moved can still be imported by their old, documented names."""

import importlib
import subprocess
import sys
import warnings

import pytest

from hookline.moved_modules import lazy_exports, new_name, read_moved

MOVED = read_moved().modules


@pytest.mark.parametrize("old", sorted(MOVED))
def test_an_old_name_gives_the_moved_module(old: str) -> None:
    """It is the same module, with its own name and spec, and a warning says so."""
    with warnings.catch_warnings(action="ignore"):  # the package may have moved, too
        importlib.import_module(old.rpartition(".")[0])
    sys.modules.pop(old, None)
    with pytest.warns(DeprecationWarning, match=f"{old} has moved to {MOVED[old]}"):
        module = importlib.import_module(old)

    assert module is importlib.import_module(MOVED[old])
    assert module.__spec__ is not None
    assert module.__spec__.name == module.__name__ == MOVED[old]


def test_modules_inside_have_moved_along() -> None:
    """A module of a moved package is not loaded a second time from its folder."""
    name = "hookline.reply_parsing.reader"
    sys.modules.pop(name, None)
    with pytest.warns(DeprecationWarning, match="has moved"):
        module = importlib.import_module(name)

    assert module is importlib.import_module("hookline_server.reply_parsing.reader")


@pytest.mark.slow
def test_only_old_names_need_the_list_of_them() -> None:
    """An engine that starts does not read it."""
    code = (
        "import hookline_offline.llm, hookline.engine.worker.uniproc\n"
        "import hookline.payloads\n"
        "from hookline.config import EngineConfig\n"
        "from hookline.moved_modules import read_moved\n"
        "print(read_moved.cache_info().misses)"
    )

    command = [sys.executable, "-c", code]
    done = subprocess.run(command, check=True, capture_output=True, text=True)

    assert done.stdout.strip() == "0"


def test_other_names_are_left_alone() -> None:
    """Only whole names count, and an unknown one is as unknown as before."""
    assert new_name("hookline.metricsx") is None
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("hookline.no_such_module")


@pytest.mark.parametrize(
    ("module", "name", "new"),
    [
        ("hookline.config", "KVRole", "hookline_kv_transfer"),
        ("hookline.front_end_parts", "LogStats", "hookline_metrics.front_end_parts"),
        ("hookline.payloads", "ConnectorContext", "hookline_kv_transfer"),
        ("hookline.payloads", "PageResponse", "hookline.pages"),
        ("hookline.stats", "TierMove", "hookline_metrics.connector_events"),
        ("hookline.stats", "TierStats", "hookline_metrics.transfer_stats"),
    ],
)
def test_names_that_have_moved_are_found(module: str, name: str, new: str) -> None:
    """A warning names their new module."""
    with pytest.warns(DeprecationWarning, match=f"has moved to {new}"):
        found = getattr(importlib.import_module(module), name)

    assert found is getattr(importlib.import_module(new), name)


def test_a_name_of_a_missing_distribution_says_which_it_needs() -> None:
    """Not only that its module is missing."""
    find = lazy_exports("hookline", {"hookline_absent.llm": ("Absent",)})

    with pytest.raises(ModuleNotFoundError, match="Absent needs hookline-absent"):
        find("Absent")
