"""From a command line to settings: defaults, then the file, then what was typed."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TypeVar, cast

import msgspec

from hookline.config import EngineConfig
from hookline.metrics.selection import Selection
from hookline_server.cli.config_file import file_arguments
from hookline_server.cli.logger_options import (
    chosen,
    declared_options,
    named_loggers,
    parse_pair,
)
from hookline_server.cli.observer_settings import completed
from hookline_server.cli.parser import Option, UsageError, make_parser, parse

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class Arguments:
    """What was given, by dotted target; what was not is absent."""

    given: Mapping[str, object]
    loggers: tuple[str, ...]

    def section(self, prefix: str) -> dict[str, object]:
        """The settings under a prefix, nested as their targets are."""
        nested: dict[str, object] = {}
        for target, value in self.given.items():
            path = target.split(".")
            if path[0] == prefix:
                _put(nested, path[1:], value)
        return nested

    def texts(self, target: str) -> list[str]:
        """The values of an option that may be repeated."""
        return cast("list[str]", self.given.get(target, []))

    def make(self, prefix: str, kind: type[T]) -> T:
        """A settings object of what was given; the rest are its own defaults."""
        try:
            return msgspec.convert(self.section(prefix), kind)
        except msgspec.ValidationError as error:
            raise UsageError(str(error)) from error


def read_arguments(
    command: str,
    description: str,
    options: Sequence[Option],
    argv: Sequence[str],
    *,
    default_loggers: Sequence[str],
) -> Arguments:
    """Reads the command line and its configuration file; `--help` ends here."""
    loggers = named_loggers(argv, default_loggers)
    everything = [*options, *declared_options(loggers)]
    parser = make_parser(command, description, everything)
    given = parse(parser, argv)
    if "run.config" in given:
        typed = given
        given = parse(parser, file_arguments(str(typed["run.config"]), everything))
        given |= typed
    return Arguments(completed(given), loggers)


def engine_config(arguments: Arguments, *, in_process: bool) -> EngineConfig:
    """The engine that was asked for; raises `ConfigError` where it cannot be."""
    config = arguments.make("config", EngineConfig)
    observers = dataclasses.replace(
        config.observers,
        stat_loggers=chosen(arguments.loggers),
        options=_logger_options(arguments),
    )
    made = dataclasses.replace(
        config,
        observers=observers,
        in_process=bool(arguments.given.get("config.in_process", in_process)),
    )
    # Also where no logger reads the catalogue: a mistake is told, and before the start.
    Selection(made)
    return made


def _logger_options(arguments: Arguments) -> dict[str, dict[str, str]]:
    options: dict[str, dict[str, str]] = {}
    for text in arguments.texts("run.stat_logger_options"):
        name, key, value = parse_pair(text)
        if name not in arguments.loggers:
            raise UsageError(f"--stat-logger-option {text}: {name} is not in use")
        options.setdefault(name, {})[key] = value
    for target, given in arguments.given.items():
        if target.startswith("logger."):
            _, name, key = target.split(".", 2)
            options.setdefault(name, {})[key] = str(given)
    return options


def _put(nested: dict[str, object], path: Sequence[str], value: object) -> None:
    for name in path[:-1]:
        nested = cast("dict[str, object]", nested.setdefault(name, {}))
    nested[path[-1]] = value
