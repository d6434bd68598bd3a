"""Which of the installed plugins may be used."""

from collections.abc import Callable

import pytest

from hookline_registry import PluginPolicy, UnknownPluginError, installed
from hookline_registry.discovery import find

GROUP = "toy.loggers"


@pytest.mark.parametrize(
    ("variable", "permitted"),
    [
        (None, {"alpha", "beta", "core"}),
        ("", {"core"}),
        ("alpha", {"alpha", "core"}),
        ("toy-two", {"beta", "core"}),
        ("no:alpha", {"beta", "core"}),
        ("alpha, beta, no:toy-two", {"alpha", "core"}),
        ("no:core", {"alpha", "beta"}),
        ("nothing", {"core"}),
    ],
)
def test_the_variable_allows_and_denies(
    monkeypatch: pytest.MonkeyPatch, variable: str | None, permitted: set[str]
) -> None:
    """Names may be those of plugins or distributions; Hookline's own need no name."""
    plugins = {"alpha": "toy-one", "beta": "toy-two", "core": "hookline-core"}
    monkeypatch.delenv("HOOKLINE_PLUGINS", raising=False)
    if variable is not None:
        monkeypatch.setenv("HOOKLINE_PLUGINS", variable)

    policy = PluginPolicy.read()

    found = {name for name, owner in plugins.items() if policy.permits(name, owner)}
    assert found == permitted


def test_a_denied_plugin_cannot_be_used(
    install: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It counts as not installed, and the error says why."""
    install("toy-one", entries={"alpha": "toy_alpha", "beta": "toy_beta"})
    monkeypatch.setenv("HOOKLINE_PLUGINS", "no:alpha")

    assert [plugin.name for plugin in installed(GROUP)] == ["beta"]
    with pytest.raises(
        UnknownPluginError, match=r"toy-one 1\.0 has it, but it is denied"
    ):
        find(GROUP, "alpha")
