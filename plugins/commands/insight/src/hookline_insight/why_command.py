"""`hookline why`: where the time of requests went."""

import argparse
import gc
import json
import urllib.parse
from urllib.error import HTTPError

from hookline_insight.answers import PATH, UnknownRequestError, of_request, shown
from hookline_insight.bounds import bound_of
from hookline_insight.selection import Selection, selected
from hookline_insight.sources import explainers, paths_of, saved_paths
from hookline_insight.usage import BY, Usage
from hookline_insight.usage import fields as usage_fields
from hookline_insight.usage import lines as usage_lines
from hookline_insight.wording import safe_text
from hookline_server.cli.asking import add_api_key, is_url, open_page
from hookline_server.cli.errors import CommandFailedError, UsageError
from hookline_server.cli.output import say


def run(argv: list[str]) -> int:
    """Answers, and prints a sentence and the account of each request."""
    given = _parser().parse_args(argv)
    gc.disable()  # it ends before there is garbage; to read takes half the time
    if given.eats is not None or given.bound:
        if given.source is not None or is_url(given.request):
            raise UsageError("--eats and --bound read a PID or FILE, and no request")
        say(_reported(given, given.request))
        return 0
    try:
        selection = Selection.of(given.slowest, given.misses, given.tenant)
    except ValueError as error:
        raise UsageError(str(error)) from error
    request, source = given.request, given.source
    if selection is not None:
        if source is not None:
            raise UsageError("a request needs no --slowest, --misses and --tenant")
        request, source = None, request
    elif request is None:
        raise UsageError(
            "name a request, or ask for some with --slowest, --misses or --tenant"
        )
    if is_url(source):
        say(_ask(given, request, source))
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
    parser = argparse.ArgumentParser(
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
        metavar="URL|PID|FILE",
        help="a server, a process of this machine, or a recording; by default all "
        "rings of this user",
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
        choices=tuple(BY),
        help="who takes KV blocks, computing and queue time, by tenant or priority",
    )
    parser.add_argument(
        "--bound", action="store_true", help="what bounds the engine, with the evidence"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_api_key(parser, "admin")
    return parser


def _reported(given: argparse.Namespace, source: str | None) -> str:
    """Tells of whole engines: who takes what, and what bounds them."""
    told: list[dict[str, object]] = []
    found: list[str] = []
    for explainer in explainers(paths_of(source)):
        header = explainer.recording.header
        index, whose = header.engine_index, f"process {header.pid}, {header.model}"
        fields: dict[str, object] = {"engine_index": index, "pid": header.pid}
        found.append(safe_text(f"engine {index} ({whose})"))
        if given.bound:
            bound = bound_of(explainer)
            fields["bound"] = {"by": bound.name, "seconds": bound.seconds}
            found += bound.lines()
        if given.eats is not None:
            usage = Usage(explainer)
            fields["eats"] = usage_fields(usage, given.eats)
            found += usage_lines(usage, given.eats)
        told.append(fields)
    return json.dumps(told) if given.json else "\n".join(found)


def _ask(given: argparse.Namespace, request: str | None, url: str) -> str:
    """Asks a server, which answers alike.

    Raises:
        CommandFailedError: It does not answer, or knows nothing of the request.
    """
    names = ("slowest", "misses", "tenant")
    query = {name: vars(given)[name] for name in names if vars(given)[name] is not None}
    if given.json:
        query["format"] = "json"
    path = PATH if request is None else f"{PATH}/{urllib.parse.quote(request, safe='')}"
    path = f"{path}?{urllib.parse.urlencode(query)}"
    try:
        with open_page(url, path, given.api_key) as reply:
            text = reply.read().decode(errors="replace")
    except HTTPError as error:
        told = error.read().decode(errors="replace").strip()
        raise CommandFailedError(safe_text(told) or f"{url}: {error}") from error
    except (OSError, ValueError) as error:
        raise CommandFailedError(f"{url}: {error}") from error
    return safe_text(text.rstrip())
