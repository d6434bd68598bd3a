"""`hookline gateway`."""

import asyncio
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import closing

from hookline import __version__
from hookline.config import EngineConfig
from hookline.plugins.kinds import LOGGER
from hookline_gateway.measuring.told import named
from hookline_gateway.options import LOGGERS, gateway_options
from hookline_gateway.serving import serve_gateway
from hookline_gateway.settings import GatewaySettings
from hookline_kernels.runtime.gc_freeze import freeze_gc
from hookline_registry import installed
from hookline_server.auth.exposure import is_wide
from hookline_server.cli.options.arguments import engine_config, read_arguments
from hookline_server.cli.output import say
from hookline_server.cli.secrets import options_from_environment
from hookline_server.listening import Bound, bound_on
from hookline_server.logs.set_up import set_up_log
from hookline_server.process_settings import set_up_process
from hookline_server.sites import stop_on_signals

logger = logging.getLogger(__name__)

DESCRIPTION = (
    "Forwards requests to servers with an OpenAI API, such as vLLM, and measures them."
)


def run(argv: list[str]) -> int:
    """Forwards until a signal comes."""
    secrets = options_from_environment(("instance-key",), os.environ)
    there = {plugin.name for plugin in installed(LOGGER.group)}
    arguments = read_arguments(
        "gateway",
        DESCRIPTION,
        gateway_options(),
        [*secrets, *with_flags(argv)],
        default_loggers=[name for name in LOGGERS if name in there],
        operand="upstream",
    )
    settings = arguments.make("server", GatewaySettings)
    config = named(engine_config(arguments, in_process=True))
    log = set_up_log(settings.log_level, settings.log_format)
    set_up_process()
    with (
        closing(log),
        closing(bound_on(settings.host, settings.port, settings.tls)) as listening,
    ):
        if is_wide(listening.sockets[0]):
            logger.warning(
                "the gateway listens on %s and checks no API keys itself: whoever "
                "reaches it can use upstreams without keys",
                listening.sockets[0].getsockname()[0],
            )
        asyncio.run(_serve(listening, settings, config))
    return 0


def with_flags(argv: Sequence[str]) -> Iterator[str]:
    """Puts the flag before each URL that stands alone, and is no option's value."""
    before = ""
    for word in argv:
        is_value = before.startswith("--") and "=" not in before
        if word.startswith(("http://", "https://")) and not is_value:
            yield "--upstream"
        yield word
        before = word


async def _serve(
    listening: Bound, settings: GatewaySettings, config: EngineConfig
) -> None:
    root = listening.url

    def tell() -> None:
        # A full collection would look at all imports, and streams wait meanwhile.
        freeze_gc()
        lines = [
            f"Hookline {__version__} forwards to",
            *(f"  {each}" for each in settings.upstream),
            f"  API      {root}/v1",
            f"  metrics  {root}/metrics",
            f"  health   {root}/health",
        ]
        say("\n".join(lines))

    await serve_gateway(listening, settings, config, stop_on_signals(), tell)
