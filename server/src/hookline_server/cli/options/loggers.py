"""The stat loggers that are in use, and the options that they bring themselves."""

from collections.abc import Iterable, Sequence

from hookline import hookspecs
from hookline.plugins.kinds import LOGGER
from hookline_registry import PluginRegistry, installed
from hookline_server.cli.options.config_file import read_file
from hookline_server.cli.options.engine import OTLP_OPTIONS
from hookline_server.cli.options.option import Option
from hookline_server.cli.options.parser import Parser

NONE = "none"
BUILT_IN = ("prometheus", "logging", "flight_recorder", "insight")
OTEL = "otel"


class DeclaredOptions:
    """Collects what one logger declares: the `CliOptions` of `add_cli_options`."""

    def __init__(self, logger: str) -> None:
        self.options: list[Option] = []
        self._logger = logger

    def add(self, key: str, *, help: str, default: str | None = None) -> None:  # noqa: A002
        """Declares one option of the logger."""
        self.options.append(
            Option(
                flag=f"{self._logger}-{key}".replace("_", "-"),
                target=f"logger.{self._logger}.{key}",
                group=f"options of the logger {self._logger}",
                metavar="VALUE",
                help=help,
                default=default,
            )
        )


def default_loggers() -> tuple[str, ...]:
    """Returns the loggers that `serve` uses by default: those that are installed."""
    names = {plugin.name for plugin in installed(LOGGER.group)}
    return tuple(name for name in BUILT_IN if name in names)


def loggers_in_use(
    sources: Sequence[Sequence[str]], defaults: Sequence[str]
) -> tuple[str, ...]:
    """Returns the default loggers and those that the user names, each once.

    The arguments are read a first time for this, because the options depend on these
    loggers. `none`, there or in the configuration file, leaves the defaults out.

    Args:
        sources: Arguments, those that take precedence first.
        defaults: The default loggers.
    """
    parser = Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("--stat-logger", action="append")
    parser.add_argument("--config")
    for option in OTLP_OPTIONS:
        parser.add_argument(f"--{option.flag}", dest=option.flag)
    given = [vars(parser.parse_known_args(each)[0]) for each in sources]
    configs = [each["config"] for each in given if each["config"] is not None]
    file = read_file(configs[0]) if configs else {}
    named = [each["stat_logger"] for each in given if each["stat_logger"]]
    names = named[0] if named else file.get("stat-logger", [])
    found = [str(name) for name in (names if isinstance(names, list) else [names])]
    flags = [option.flag for option in OTLP_OPTIONS]
    if any(each[flag] is not None for each in given for flag in flags) or any(
        flag in file for flag in flags
    ):
        found.append(OTEL)
    kept = () if NONE in found else defaults
    return tuple(dict.fromkeys(name for name in (*kept, *found) if name != NONE))


def declared_options(loggers: Iterable[str]) -> list[Option]:
    """Returns the options that the named loggers declare; imports only these loggers.

    Raises:
        RegistryError: A logger is unknown or broken.
    """
    registry = PluginRegistry("hookline", hookspecs)
    found: list[Option] = []
    for name in loggers:
        if ":" in name:
            continue
        declared = DeclaredOptions(name)
        registry.call_one(
            registry.load(LOGGER, name), "add_cli_options", options=declared
        )
        found += declared.options
    return found
