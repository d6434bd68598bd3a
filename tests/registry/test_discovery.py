"""Finding installed plugins without importing them."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hookline_registry import (
    DuplicatePluginError,
    InstalledPlugin,
    UnknownPluginError,
    installed,
)
from hookline_registry.discovery import find

GROUP = "toy.loggers"
EXPLOSIVE = {"toy_explosive": "raise AssertionError('imported')"}


def test_a_group_without_plugins_is_empty() -> None:
    """A group without plugins lists nothing."""
    assert installed(GROUP) == ()


def test_plugins_are_described_and_sorted(install: Callable[..., None]) -> None:
    """Each plugin has its name and distribution, sorted by name."""
    install("toy-second", entries={"zeta": "toy_zeta"}, version="2.5")
    install("toy-first", entries={"alpha": "toy_alpha:PLUGIN"})

    found = installed(GROUP)

    assert found == (
        InstalledPlugin(
            name="alpha",
            group=GROUP,
            distribution="toy-first",
            version="1.0",
            value="toy_alpha:PLUGIN",
        ),
        InstalledPlugin(
            name="zeta",
            group=GROUP,
            distribution="toy-second",
            version="2.5",
            value="toy_zeta",
        ),
    )


def test_what_is_installed_or_removed_later_is_noticed(
    install: Callable[..., None], site: Path
) -> None:
    """Each listing is of what is installed then, though little is read again."""
    install("toy-first", entries={"alpha": "toy_alpha"})
    before = [plugin.name for plugin in installed(GROUP)]
    install("toy-second", entries={"zeta": "toy_zeta"})
    between = [plugin.name for plugin in installed(GROUP)]
    shutil.rmtree(site / "toy_first-1.0.dist-info")
    after = [plugin.name for plugin in installed(GROUP)]

    assert (before, between, after) == (["alpha"], ["alpha", "zeta"], ["zeta"])


def test_listing_imports_nothing(install: Callable[..., None]) -> None:
    """A plugin that must not be imported can be listed."""
    install("toy-boom", entries={"boom": "toy_explosive"}, modules=EXPLOSIVE)

    (plugin,) = installed(GROUP)

    assert plugin.name == "boom"
    assert "toy_explosive" not in sys.modules


def test_other_groups_are_left_out(install: Callable[..., None]) -> None:
    """Only the asked-for group is listed."""
    install("toy-model", entries={"demo": "toy_demo"}, group="toy.models")

    assert installed(GROUP) == ()


def test_an_unknown_name_lists_what_is_installed(install: Callable[..., None]) -> None:
    """The error for a typing mistake shows what could have been typed."""
    install("toy-both", entries={"alpha": "toy_alpha", "beta": "toy_beta"})

    with pytest.raises(UnknownPluginError, match="installed: alpha, beta") as caught:
        find(GROUP, "gamma")

    assert caught.value.group == GROUP
    assert caught.value.name == "gamma"
    assert caught.value.installed == ("alpha", "beta")


def test_a_misspelt_group_is_named(install: Callable[..., None]) -> None:
    """The error for a name in a misspelt group names that group."""
    install("toy-astray", entries={"lost": "toy_lost"}, group="toy.logger")

    with pytest.raises(
        UnknownPluginError, match=r"toy-astray 1.0 has it in the misspelt group 'toy.l"
    ):
        find(GROUP, "lost")
    with pytest.raises(UnknownPluginError) as caught:
        find(GROUP, "other")

    assert "misspelt" not in str(caught.value)


def test_an_unknown_name_without_any_plugin_is_an_error() -> None:
    """The error states that nothing is installed."""
    with pytest.raises(UnknownPluginError, match="installed: none"):
        find(GROUP, "alpha")


def test_two_distributions_with_one_name_are_an_error(
    install: Callable[..., None],
) -> None:
    """Neither of two claimants is guessed; the error names both."""
    install("toy-mine", entries={"alpha": "toy_mine"})
    install("toy-yours", entries={"alpha": "toy_yours"}, version="3.1")

    with pytest.raises(DuplicatePluginError, match="alpha") as caught:
        find(GROUP, "alpha")

    assert caught.value.distributions == ("toy-mine 1.0", "toy-yours 3.1")
    assert "toy-mine 1.0 and toy-yours 3.1" in str(caught.value)
    assert len(installed(GROUP)) == 2


def test_a_stale_copy_is_not_a_duplicate(
    install: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same distribution twice on the path counts once, and the first one wins."""
    stale = tmp_path / "stale"
    modules = {"toy_alpha": "def make():\n    return 1\n"}
    install("toy-alpha", entries={"alpha": "toy_alpha:make"}, modules=modules)
    install("Toy_Alpha", entries={"alpha": "toy_old:make"}, folder=stale, version="0.1")
    monkeypatch.setattr(sys, "path", [*sys.path, str(stale)])

    assert find(GROUP, "alpha").value == "toy_alpha:make"
    assert [plugin.version for plugin in installed(GROUP)] == ["1.0"]


def test_a_distribution_without_metadata_is_still_listed(site: Path) -> None:
    """A half-removed distribution breaks no listing."""
    remains = site / "toy_remains-1.0.dist-info"
    remains.mkdir()
    (remains / "entry_points.txt").write_text(f"[{GROUP}]\nold = toy_remains")

    (plugin,) = installed(GROUP)

    assert plugin.name == "old"
    assert plugin.source == "an unknown distribution"
