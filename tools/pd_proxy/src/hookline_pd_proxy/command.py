"""`hookline route`."""

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial

from hookline import __version__
from hookline.exceptions import ConfigError
from hookline_pd_proxy.demo import HOST, SHARED_STORAGE, Demo, DemoSettings
from hookline_pd_proxy.options import ROUTE_OPTIONS
from hookline_pd_proxy.pools import Role
from hookline_pd_proxy.serving import serve_route
from hookline_pd_proxy.settings import RouteSettings
from hookline_processes.addresses import LARGEST_PORT
from hookline_server.auth.exposure import is_wide
from hookline_server.cli.errors import UsageError
from hookline_server.cli.options.arguments import Arguments
from hookline_server.cli.options.parser import make_parser, parse_known
from hookline_server.cli.output import say
from hookline_server.cli.secrets import options_from_environment
from hookline_server.listening import Bound, bound_on, bound_port, listen
from hookline_server.logs.set_up import set_up_log
from hookline_server.sites import stop_on_signals

logger = logging.getLogger(__name__)

DESCRIPTION = (
    "Routes requests to prefill and decode instances: one computes the prompt, another "
    "one generates the answer."
)


def run(argv: list[str]) -> int:
    """Routes until a signal comes."""
    parser = make_parser("route", DESCRIPTION, ROUTE_OPTIONS)
    secrets = options_from_environment(("instance-key",), os.environ)
    given, rest = parse_known(parser, [*secrets, *argv])
    arguments = Arguments(given, ())
    if "demo.is_wanted" in arguments.given:
        _run_demo(arguments, rest)
        return 0
    parser.refuse(rest)
    if "demo.connector" in arguments.given:
        raise UsageError("--connector requires --demo")
    settings = arguments.make("route", RouteSettings)
    log = set_up_log(settings.log_level, settings.log_format)
    with (
        closing(log),
        closing(_bound(settings)) as listening,
    ):
        _warn_if_wide(listening)
        asyncio.run(_serve(listening, settings))
    return 0


async def _serve(listening: Bound, settings: RouteSettings) -> None:
    stopping = stop_on_signals()
    await serve_route(listening, settings, stopping, _teller(listening, settings))


def _run_demo(arguments: Arguments, rest: Sequence[str]) -> None:
    named = {"route.prefill", "route.decode", "route.instances_file"}
    if named & arguments.given.keys():
        raise UsageError("--demo cannot be combined with instances of your own")
    # Their ports follow from the proxy's port, which is not known yet.
    later = {"route.decode": ["http://127.0.0.1"]}
    asked = Arguments({**arguments.given, **later}, ()).make("route", RouteSettings)
    log = set_up_log(asked.log_level, asked.log_format)
    with (
        closing(log),
        closing(_bound(asked)) as listening,
    ):
        demo = DemoSettings(
            connector=str(arguments.given.get("demo.connector", SHARED_STORAGE)),
            arguments=rest,
            ports=_ports(HOST, asked.port),
        )
        settings = replace(
            asked, prefill=[demo.url(Role.PREFILL)], decode=[demo.url(Role.DECODE)]
        )
        _warn_if_wide(listening)
        when_ready = _teller(listening, settings)
        asyncio.run(Demo(demo).run(listening, settings, when_ready))


def _bound(settings: RouteSettings) -> Bound:
    return bound_on(settings.host, settings.port, settings.tls)


def _warn_if_wide(listening: Bound) -> None:
    if is_wide(listening.sockets[0]):
        logger.warning(
            "the proxy listens on %s and checks no API keys itself: whoever reaches it "
            "can use instances without keys",
            listening.sockets[0].getsockname()[0],
        )


def _ports(host: str, port: int) -> dict[Role, int]:
    """Returns the two ports after the proxy's, or free ones if that is 0."""
    if port == 0:
        with listen(host, 0) as one, listen(host, 0) as other:
            return {Role.PREFILL: bound_port(one), Role.DECODE: bound_port(other)}
    ports = {role: port + 1 + number for number, role in enumerate(Role)}
    if max(ports.values()) > LARGEST_PORT:
        raise ConfigError("port", "must leave room for two more ports above it")
    return ports


def _teller(listening: Bound, settings: RouteSettings) -> Callable[[], None]:
    root = listening.url
    lines = [
        f"Hookline {__version__} routes",
        *(f"  prefill  {each}" for each in settings.prefill),
        *(f"  decode   {each}" for each in settings.decode),
        *([f"  file     {file}"] if (file := settings.instances_file) else []),
        f"  API      {root}/v1",
        f"  metrics  {root}/metrics",
        f"  health   {root}/health",
    ]
    return partial(say, "\n".join(lines))
