"""`hookline why`: where the time of requests went."""

import argparse
import gc
import urllib.parse

from hookline_insight.answers import PATH, UnknownRequestError, of_request, shown
from hookline_insight.reports import EATS, report
from hookline_insight.selection import Selection, selected
from hookline_insight.sources import ask_page, explainers, paths_of, saved_paths
from hookline_server.cli.asking import add_api_key, url_of
from hookline_server.cli.errors import CommandFailedError, UsageError
from hookline_server.cli.options.command_parser import CommandParser
from hookline_server.cli.output import say


def run(argv: list[str]) -> int:
    """Answers, and prints a sentence and the account of each request."""
    given = _parser().parse_args(argv)
    gc.disable()  # it ends before there is garbage; to read takes half the time
    if given.eats is not None or given.bound:
        say(_reported(given))
        return 0
    selection = _selection(given)
    request, source = given.request, given.source
    if selection is not None:
        if source is not None:
            raise UsageError("a request needs no --slowest, --misses and --tenant")
        request, source = None, request
    elif request is None:
        raise UsageError(
            "name a request, or ask for some with --slowest, --misses or --tenant"
        )
    if (url := url_of(source)) is not None:
        say(_ask(given, request, url))
        return 0
    paths = paths_of(source)
    if selection is not None:
        found = selected(selection, explainers(paths))
    else:
        # Its engine may have failed meanwhile.
        others = saved_paths() if source is None else ()
        try:
            found = of_request(request or "", paths, others=others)
        except UnknownRequestError as error:
            raise CommandFailedError(str(error)) from error
    say(shown(found, is_json=given.json, is_list=selection is not None))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="hookline why", description="Tells where the time of a request went."
    )
    parser.add_argument(
        "request",
        nargs="?",
        metavar="REQUEST_ID",
        help="the client's X-Request-Id, the response's id, or the engine's number",
    )
    parser.add_argument(
        "source",
        nargs="?",
        metavar="SOURCE",
        help="a server's URL or HOST:PORT, a process of this machine, or a recording; "
        "by default all rings of this user",
    )
    parser.add_argument(
        "--slowest", type=int, metavar="COUNT", help="the slowest requests"
    )
    parser.add_argument(
        "--misses",
        metavar="OBJECTIVE[=SECONDS]",
        help="requests that missed their ttft, tpot or e2e, or took longer than this",
    )
    parser.add_argument("--tenant", metavar="TENANT", help="only this tenant's")
    parser.add_argument(
        "--eats",
        choices=EATS,
        help="who takes KV blocks, computing and queue time",
    )
    parser.add_argument(
        "--bound", action="store_true", help="what bounds the engine, with the evidence"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_api_key(parser, "admin")
    return parser


def _reported(given: argparse.Namespace) -> str:
    """Tells of whole engines."""
    if given.source is not None or _selection(given) is not None:
        raise UsageError("--eats and --bound take a source, and no request")
    if (url := url_of(given.request)) is not None:
        return _ask(given, None, url)
    found = explainers(paths_of(given.request))
    return report(found, eats=given.eats, is_bound=given.bound, is_json=given.json)


def _selection(given: argparse.Namespace) -> Selection | None:
    try:
        return Selection.of(given.slowest, given.misses, given.tenant)
    except ValueError as error:
        raise UsageError(str(error)) from error


def _ask(given: argparse.Namespace, request: str | None, url: str) -> str:
    """Asks a server, which answers alike.

    Raises:
        CommandFailedError: It does not answer, or knows nothing of the request.
    """
    names = ("slowest", "misses", "tenant", "eats")
    query = {name: vars(given)[name] for name in names if vars(given)[name] is not None}
    if given.bound:
        query["bound"] = "1"
    if given.json:
        query["format"] = "json"
    path = PATH if request is None else f"{PATH}/{urllib.parse.quote(request, safe='')}"
    return ask_page(url, f"{path}?{urllib.parse.urlencode(query)}", given.api_key)
