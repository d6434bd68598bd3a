"""From a command line to settings: defaults, file, environment, then what was typed."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import TypeVar, cast

import msgspec

from hookline.config import EngineConfig
from hookline.config.options import assemble, put
from hookline.exceptions import ConfigError
from hookline_metrics.selection import Selection
from hookline_server.cli.errors import UsageError
from hookline_server.cli.options.config_file import file_arguments
from hookline_server.cli.options.derived import SHORTHAND
from hookline_server.cli.options.engine import FLAGS
from hookline_server.cli.options.environment import (
    arguments_of,
    has_unknown,
    settings_of,
    unknown_variables,
)
from hookline_server.cli.options.help import asked_help
from hookline_server.cli.options.implied import completed
from hookline_server.cli.options.loggers import declared_options, loggers_in_use
from hookline_server.cli.options.option import CONFIG_FILE, FAIL_ON_ENVIRONMENT, Option
from hookline_server.cli.options.parser import Parser, make_parser, parse
from hookline_server.cli.options.spelling import respelt
from hookline_server.cli.output import complain

T = TypeVar("T")

LOGGER_OPTIONS = "config.observers.options"
ENGINE_ARGUMENTS = "config.engine_arguments"


@dataclasses.dataclass(frozen=True, slots=True)
class Arguments:
    """The values that were set, by dotted target."""

    given: Mapping[str, object]
    loggers: tuple[str, ...]

    def section(self, prefix: str) -> dict[str, object]:
        """Returns the values under a prefix, nested like their targets."""
        nested: dict[str, object] = {}
        for target, value in self.given.items():
            first, *path = target.split(".")
            if first == prefix:
                put(nested, path, value)
        return nested

    def texts(self, target: str) -> list[str]:
        """Returns the values of an option that can be repeated."""
        return cast("list[str]", self.given.get(target, []))

    def make(self, prefix: str, kind: type[T]) -> T:
        """Makes settings of the values under a prefix; the others have their defaults.

        Raises:
            ConfigError: A value is wrong, or a required one is missing.
        """
        try:
            return assemble(kind, self.section(prefix))
        except msgspec.ValidationError as error:
            raise UsageError(str(error)) from error


def read_arguments(
    command: str,
    description: str,
    options: Sequence[Option],
    argv: Sequence[str],
    *,
    default_loggers: Sequence[str],
    operand: str | None = None,
) -> Arguments:
    """Reads the command line and its configuration file; `--help` ends here.

    Args:
        command: The subcommand.
        description: One sentence for the help.
        options: All options but those of loggers.
        argv: The arguments after the subcommand.
        default_loggers: Stat loggers that are used unless `none` is named.
        operand: Flag of an option whose value may also stand without the flag.

    Raises:
        UsageError: An argument is unknown or wrong.
    """
    own, after = _split(argv, options)
    typed = respelt(own, options)
    wants_help = asked_help(typed) is not None
    environment = {} if wants_help else _environment(options)
    before = [word for words in environment.values() for word in words]
    loggers = loggers_in_use([typed, before], default_loggers)
    everything = [*options, *declared_options(loggers)]
    parser = make_parser(command, description, everything, operand=operand)
    given = parse(parser, typed)
    lower: dict[str, object] = {}
    for name, words in _environment(everything).items():
        lower = _over(lower, _parsed(parser, name, words, everything))
    if (path := given.get(CONFIG_FILE, lower.get(CONFIG_FILE))) is not None:
        words = file_arguments(str(path), everything)
        lower = _over(_parsed(parser, str(path), words, everything), lower)
    given = _over(lower, given)
    _tell_unknown(everything, is_error=bool(given.get(FAIL_ON_ENVIRONMENT)))
    if after:
        engines = cast("list[str]", given.get(ENGINE_ARGUMENTS, []))
        given[ENGINE_ARGUMENTS] = [*engines, *after]
    return Arguments(completed(given, loggers), loggers)


def _environment(options: Sequence[Option]) -> dict[str, list[str]]:
    """Returns the arguments of the variables that set options, by their names."""
    return {
        name: arguments_of(name, value, options)
        for name, value in settings_of(options, os.environ).items()
    }


def _parsed(
    parser: Parser, source: str, words: Sequence[str], options: Sequence[Option]
) -> dict[str, object]:
    try:
        return parse(parser, respelt(words, options))
    except UsageError as error:
        raise UsageError(f"{source}: {error}") from error


def _over(
    lower: Mapping[str, object], higher: Mapping[str, object]
) -> dict[str, object]:
    """Returns what both set; the second wins, also by a switch for a value."""
    switched = {each.removeprefix(f"{SHORTHAND}.") for each in higher}
    kept = {key: value for key, value in lower.items() if key not in switched}
    return {**kept, **higher}


def _tell_unknown(options: Sequence[Option], *, is_error: bool) -> None:
    """Warns of variables that look like options, or raises `UsageError`."""
    if not has_unknown(options, os.environ):
        return
    from hookline_server.cli.options.everything import (  # noqa: PLC0415 - seldom needed
        all_options,
        plugin_names,
    )

    told = unknown_variables(
        [*options, *all_options()], os.environ, owners=plugin_names()
    )
    if told and is_error:
        raise UsageError("; ".join(told))
    for each in told:
        complain(f"hookline: warning: {each}")


def _split(
    argv: Sequence[str], options: Sequence[Option]
) -> tuple[Sequence[str], Sequence[str]]:
    """Returns what stands before `--`, and after it, if that is for another engine."""
    is_known = any(each.target == ENGINE_ARGUMENTS for each in options)
    if not is_known or "--" not in argv:
        return argv, ()
    place = argv.index("--")
    return argv[:place], argv[place + 1 :]


def engine_config(arguments: Arguments, *, in_process: bool) -> EngineConfig:
    """Makes the engine's configuration.

    Args:
        arguments: What was set.
        in_process: Whether a single engine runs in this process by default; several
            have their own.

    Raises:
        ConfigError: A value is wrong.
    """
    try:
        config = arguments.make("config", EngineConfig)
    except ConfigError as error:
        flag = FLAGS.get(error.option, error.option)
        raise ConfigError(flag, error.detail) from error
    observers = dataclasses.replace(
        config.observers,
        stat_loggers=arguments.loggers,
        options=_logger_options(arguments),
    )
    in_process = in_process and not config.prefers_processes
    made = dataclasses.replace(
        config,
        observers=observers,
        in_process=bool(arguments.given.get("config.in_process", in_process)),
    )
    # Checks the options of metrics before the start, even if no logger reads them.
    Selection(made)
    return made


def _logger_options(arguments: Arguments) -> dict[str, dict[str, str]]:
    given = arguments.given.get(LOGGER_OPTIONS, {})
    options = dict(cast("Mapping[str, Mapping[str, str]]", given))
    for name, values in options.items():
        if name not in arguments.loggers:
            shown = ", ".join(f"{name}.{key}={value}" for key, value in values.items())
            raise UsageError(f"--stat-logger-option {shown}: {name} is not in use")
    merged = {name: dict(values) for name, values in options.items()}
    for target, value in arguments.given.items():
        if target.startswith("logger."):
            _, name, key = target.split(".", 2)
            merged.setdefault(name, {})[key] = str(value)
    return merged
