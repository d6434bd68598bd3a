"""What a command line of `hookline serve` means, without starting a server."""

from hookline.config import EngineConfig
from hookline_server.cli.options.arguments import engine_config, read_arguments
from hookline_server.cli.options.engine import engine_options
from hookline_server.cli.options.loggers import default_loggers
from hookline_server.cli.options.server import server_options
from hookline_server.settings import ServerSettings


def options_of(command: list[str]) -> tuple[EngineConfig, ServerSettings]:
    """Returns what the server makes of a command that begins with `serve`."""
    serve, *argv = command
    assert serve == "serve"
    options = [*server_options(), *engine_options()]
    arguments = read_arguments(
        serve,
        "",
        options,
        argv,
        default_loggers=default_loggers(),
        operand="model",
    )
    settings = arguments.make("server", ServerSettings)
    return engine_config(arguments, in_process=False), settings
