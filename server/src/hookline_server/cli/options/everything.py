"""The options of all commands of this package, and the names of all plugins."""

from hookline.plugins.kinds import KINDS
from hookline_registry import installed
from hookline_server.cli.options.batch import BATCH_OPTIONS
from hookline_server.cli.options.engine import engine_options
from hookline_server.cli.options.generate import GENERATE_OPTIONS
from hookline_server.cli.options.option import Option
from hookline_server.cli.options.server import server_options


def all_options() -> list[Option]:
    """Returns the options of `serve`, `generate` and `run-batch`; some occur twice."""
    return [*server_options(), *engine_options(), *BATCH_OPTIONS, *GENERATE_OPTIONS]


def plugin_names() -> set[str]:
    """Returns the names of all installed plugins; imports none."""
    return {each.name for kind in KINDS for each in installed(kind.group)}
