"""`hookline serve`: starts the server."""

import asyncio
import logging
import os
import time
from contextlib import ExitStack, closing

from aiohttp import web

from hookline.config import EngineConfig
from hookline_description.locating import located
from hookline_kernels.runtime.gc_freeze import freeze_gc
from hookline_server.access_log import access_log
from hookline_server.api_servers.parent import Parent
from hookline_server.auth.exposure import warn_if_open
from hookline_server.binding import bound
from hookline_server.cli.commands.banner import banner
from hookline_server.cli.commands.headless import run_headless
from hookline_server.cli.engine_starter import engine_starter, owner_starter
from hookline_server.cli.options.arguments import engine_config, read_arguments
from hookline_server.cli.options.engine import engine_options
from hookline_server.cli.options.loggers import default_loggers
from hookline_server.cli.options.server import HEADLESS, server_options
from hookline_server.cli.output import say
from hookline_server.cli.secrets import (
    options_from_environment,
    secret_file_from_environment,
)
from hookline_server.context import key_ring
from hookline_server.forked_children import release_in_forked_children
from hookline_server.logs.set_up import ServerLog, set_up_log
from hookline_server.middlewares import load_middlewares
from hookline_server.process_settings import set_up_process
from hookline_server.replies.parsers import choose_parsers
from hookline_server.serving import serve
from hookline_server.settings import ServerSettings
from hookline_server.texts.given_template import check_given_template

logger = logging.getLogger(__name__)


def run(argv: list[str]) -> int:
    """Serves until a signal arrives."""
    set_up_process()
    began = time.monotonic()
    arguments = read_arguments(
        "serve",
        "Starts the server with the OpenAI API.",
        [*server_options(), *engine_options()],
        [*_from_environment(), *argv],
        default_loggers=default_loggers(),
        operand="model",
    )
    config = engine_config(arguments, in_process=False)
    settings = arguments.make("server", ServerSettings)
    if HEADLESS.target in arguments.given:
        with closing(_log(settings)):
            return run_headless(located(config), settings)
    # Mistakes are found before the model loads.
    check_given_template(config.model.chat_template)
    choose_parsers(settings.replies)
    load_middlewares(settings.middleware)
    with ExitStack() as stack:
        return _serve(settings, config, stack, began)


def _serve(
    settings: ServerSettings, config: EngineConfig, stack: ExitStack, began: float
) -> int:
    listening = bound(settings, stack)
    release_in_forked_children(listening.all)
    root, pages_root = listening.api.url, (listening.pages or listening.api).url

    def when_ready(app: web.Application) -> None:
        # A full collection would look at all imports: 100 ms for everything here.
        freeze_gc()
        seconds = time.monotonic() - began
        say(banner(app, root=root, pages_root=pages_root, seconds=seconds))

    def last() -> int:
        stack.close()  # which removes a socket's file
        return 0

    log = _log(settings)
    with closing(log), access_log(settings.log):
        warn_if_open(listening, key_ring(settings))
        if (tls := listening.api.tls) is not None:
            tls.certificates.warn()
        urls = [each for place in listening.bounds for each in place.urls]
        logger.info("listening on %s", " and ".join(urls))
        if settings.api_server_count == 1:
            serving = serve(
                listening,
                settings,
                start_engine=engine_starter(config, log),
                when_ready=when_ready,
                when_done=log.end_feed,
                last=last,
            )
        else:
            parent = Parent(
                listening=listening,
                settings=settings,
                start_owner=owner_starter(config, log),
                say=say,
                began=began,
                when_done=log.end_feed,
                last=last,
            )
            serving = parent.serve()
        asyncio.run(serving)
    return 0


def _log(settings: ServerSettings) -> ServerLog:
    own = settings.log.log_config_file
    return set_up_log(settings.log_level, settings.log_format, own)


def _from_environment() -> list[str]:
    keys = options_from_environment(("api-key", "metrics-token"), os.environ)
    return [*keys, *secret_file_from_environment(os.environ)]
