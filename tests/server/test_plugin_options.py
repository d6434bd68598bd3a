"""`--plugins-allow` and `--plugins-deny` restrict the plugins of a command."""

import json
import os

import pytest

from hookline_server.cli import main
from hookline_server.cli.errors import UsageError
from hookline_server.cli.options.plugins import without_plugin_options


@pytest.fixture(autouse=True)
def _unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOKLINE_PLUGINS", "x")  # so that the test's value is undone
    monkeypatch.delenv("HOOKLINE_PLUGINS")


def test_both_options_go_to_the_environment() -> None:
    """Child processes read it; what is left is the command's own."""
    argv = ["serve", "--plugins-allow", "a,b", "--plugins-deny=c", "--port", "1"]

    assert without_plugin_options(argv) == ["serve", "--port", "1"]
    assert os.environ["HOOKLINE_PLUGINS"] == "a,b,no:c"


def test_options_add_to_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the environment denies stays denied."""
    monkeypatch.setenv("HOOKLINE_PLUGINS", "no:a")

    without_plugin_options(["serve", "--plugins-deny", "b"])

    assert os.environ["HOOKLINE_PLUGINS"] == "no:a,no:b"


@pytest.mark.parametrize("argv", [["--plugins-deny"], ["--plugins-allow="]])
def test_an_option_without_names_is_refused(argv: list[str]) -> None:
    """It would silently deny nothing, or everything."""
    with pytest.raises(UsageError, match="needs names of plugins"):
        without_plugin_options(argv)


def test_a_denied_plugin_is_listed_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    """`hookline plugins` shows it, and why it is not used."""
    assert main(["plugins", "--json", "--plugins-deny", "otel"]) == 0

    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["otel"]["state"] == "it is denied (HOOKLINE_PLUGINS)"
    assert rows["prometheus"]["state"] == "ok"


def test_a_denied_logger_cannot_be_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    """The error names what has denied it."""
    argv = ["serve", "--plugins-deny", "otel", "--stat-logger", "otel"]

    assert main(argv) == 2
    assert "hookline-otel 0.1.0 has it, but it is denied" in capsys.readouterr().err
