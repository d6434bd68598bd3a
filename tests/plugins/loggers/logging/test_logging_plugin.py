"""The logging plugin as Hookline meets it."""

import json

import pytest
import structlog

import hookline_logging
from hookline.config import EngineConfig
from hookline.exceptions import ConfigError
from hookline.payloads import LoggerContext
from hookline_logging import StateLogger, create_stat_logger
from hookline_logging.options import LineFormat, Options
from hookline_testing.logger_plugins import DeclaredOptions, assert_hooks_exist
from hookline_testing.payloads import make_started


def context(**options: str) -> LoggerContext:
    """What the plugin is given when it is chosen."""
    return LoggerContext(name="logging", config=EngineConfig(), options=options)


def test_plugin_agrees_with_the_specs() -> None:
    """The module and its logger implement only hooks there are."""
    assert_hooks_exist(hookline_logging, create_stat_logger(context=context()))


def test_options_are_declared_with_their_defaults() -> None:
    """The command line offers the two options, with what holds without them."""
    declared = DeclaredOptions()

    hookline_logging.add_cli_options(declared)

    assert declared.defaults == {"interval": "5", "format": "auto"}
    assert Options.read(context()) == Options()
    assert Options.read(context(interval="0.5", format="json")) == Options(
        0.5, LineFormat.JSON
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"interval": "soon"}, "logging.interval: 'soon' is not a number of seconds"),
        (
            {"interval": "0"},
            "logging.interval: must be above 0 seconds and finite, not 0",
        ),
        (
            {"interval": "inf"},
            "logging.interval: must be above 0 seconds and finite, not inf",
        ),
        (
            {"format": "xml"},
            "logging.format: unknown format 'xml'; known: auto, console, json",
        ),
        (
            {"colour": "red"},
            "logging.colour: no such option; options: format, interval",
        ),
    ],
)
def test_wrong_option_is_one_clear_error(options: dict[str, str], message: str) -> None:
    """A wrong value or option is named, with what would be right."""
    with pytest.raises(ConfigError) as caught:
        Options.read(context(**options))

    assert str(caught.value) == message


def test_json_lines_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    """With format=json each line is an object with level and UTC time."""
    logger: StateLogger = create_stat_logger(context=context(format="json"))

    logger.engine_started(make_started())

    captured = capsys.readouterr()
    line = json.loads(captured.err)
    assert captured.out == ""
    assert line["event"] == "engine started"
    assert line["level"] == "info"
    assert line["timestamp"].endswith("Z")


def test_console_lines_are_plain_without_a_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A line is for people, without colour codes in a file."""
    logger: StateLogger = create_stat_logger(context=context(format="console"))

    logger.engine_started(make_started())

    line = capsys.readouterr().err
    assert "engine started" in line
    assert "model=tiny" in line
    assert line.count("\n") == 1
    assert "\x1b" not in line


def test_lines_go_to_the_programs_log_if_it_has_one(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """By default a program's handlers get the lines, with their fields."""
    logger: StateLogger = create_stat_logger(context=context())

    with caplog.at_level("INFO"):
        logger.engine_started(make_started())

    (record,) = caplog.records
    assert (record.name, record.getMessage()) == ("hookline_logging", "engine started")
    assert vars(record)["model"] == "tiny"
    assert capsys.readouterr().err == ""


def test_program_s_own_structlog_is_left_alone() -> None:
    """Creating and using the logger configures nothing globally."""
    logger: StateLogger = create_stat_logger(context=context())

    logger.engine_started(make_started())

    assert not structlog.is_configured()
