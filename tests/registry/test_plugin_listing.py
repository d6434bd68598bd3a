"""The rows of `hookline plugins`."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from hookline_registry import PluginKind, PluginRow, list_plugins

LOGGERS = PluginKind(name="logger", group="toy.loggers", hook="create_logger")
MODELS = PluginKind(
    name="model", group="toy.models", hook="create_logger", bare="factory"
)
GOOD = "from toy_specs import hookimpl\n\n@hookimpl\ndef step_finished(step): ...\n"


def test_a_working_plugin_is_a_full_row(
    install: Callable[..., None], specs: ModuleType
) -> None:
    """A row has a plugin's kind, distribution and hooks."""
    install("toy-good", entries={"good": "toy_good"}, modules={"toy_good": GOOD})

    rows = list_plugins("toy", [LOGGERS], specs)

    assert rows == (
        PluginRow(
            name="good",
            kind="logger",
            distribution="toy-good",
            version="1.0",
            hooks=("step_finished",),
            state="ok",
        ),
    )


def test_broken_plugins_break_no_listing(
    install: Callable[..., None], specs: ModuleType
) -> None:
    """Plugins that fail to import, do not fit or exit are rows with a reason."""
    install("toy-good", entries={"good": "toy_good"}, modules={"toy_good": GOOD})
    broken = {"toy_absent": "import toy_missing", "toy_exit": "raise SystemExit(9)"}
    broken["toy_typo"] = GOOD.replace("step_finished", "step_finishd")
    entries = {name.removeprefix("toy_"): name for name in broken}
    install("toy-broken", entries=entries, modules=broken)

    rows = list_plugins("toy", [LOGGERS], specs)

    states = {row.name: row.state for row in rows}
    assert list(states) == ["absent", "exit", "good", "typo"]
    assert "No module named 'toy_missing'" in states["absent"]
    assert "SystemExit: 9" in states["exit"]
    assert states["good"] == "ok"
    assert "'step_finishd'" in states["typo"]


def test_both_claimants_of_a_name_are_shown(
    install: Callable[..., None], specs: ModuleType
) -> None:
    """Each of two distributions that claim one name is a row that names both."""
    install("toy-mine", entries={"good": "toy_good"}, modules={"toy_good": GOOD})
    install("toy-yours", entries={"good": "toy_good"})

    rows = list_plugins("toy", [LOGGERS], specs)

    assert [row.distribution for row in rows] == ["toy-mine", "toy-yours"]
    assert all("toy-mine 1.0 and toy-yours 1.0" in row.state for row in rows)


def test_misspelt_groups_are_shown(
    install: Callable[..., None], specs: ModuleType, site: Path
) -> None:
    """A plugin in a misspelt group is a row with the correction."""
    install("toy-astray", entries={"lost": "toy_good"}, group="toy.logger")
    install("toy-other", entries={"demo": "toy_demo"}, group="toy.models")

    (row,) = list_plugins("toy", [LOGGERS], specs)

    assert (row.name, row.distribution, row.kind) == ("lost", "toy-astray", "logger")
    metadata = site / "toy_astray-1.0.dist-info"
    assert row.state == (
        "its group is misspelt: 'toy.logger' instead of 'toy.loggers' "
        f"({metadata / 'entry_points.txt'}:1)"
    )


def test_plugins_without_hooks_have_the_hook_of_their_kind(
    install: Callable[..., None], specs: ModuleType
) -> None:
    """A model is listed, in the order of kinds, and needs no marker."""
    modules = {"toy_model": "def folder(context): ...\n", "toy_good": GOOD}
    install("toy-good", entries={"good": "toy_good"}, modules=modules)
    install("toy-model", entries={"demo": "toy_model:folder"}, group="toy.models")

    rows = list_plugins("toy", [MODELS, LOGGERS], specs)

    facts = [(row.kind, row.name, row.hooks, row.state) for row in rows]
    assert facts == [
        ("model", "demo", ("create_logger",), "ok"),
        ("logger", "good", ("step_finished",), "ok"),
    ]


def test_denied_plugins_are_listed_and_not_imported(
    install: Callable[..., None],
    specs: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever wonders where a plugin is finds it, and why it cannot be used."""
    bad = "raise SystemExit('imported')"
    install("toy-bad", entries={"bad": "toy_bad"}, modules={"toy_bad": bad})
    monkeypatch.setenv("HOOKLINE_PLUGINS", "no:bad")

    (row,) = list_plugins("toy", [LOGGERS], specs)

    assert (row.name, row.state) == ("bad", "it is denied (HOOKLINE_PLUGINS)")
