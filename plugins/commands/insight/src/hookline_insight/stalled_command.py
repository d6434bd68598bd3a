"""`hookline stalled`: what engines do that hang, or work, from outside."""

import json

from hookline_insight.answers import STALLED_PATH
from hookline_insight.reports import standstills
from hookline_insight.sources import ask_page, paths_of
from hookline_insight.stalled import Condition
from hookline_server.cli.asking import add_api_key, url_of
from hookline_server.cli.errors import CommandFailedError
from hookline_server.cli.options.command_parser import CommandParser
from hookline_server.cli.output import say

STALLED = 1
_ENDED = (Condition.HANGS, Condition.KILLED, Condition.FAILED)


def run(argv: list[str]) -> int:
    """Prints how each engine is; the exit status is 1 if one does not serve."""
    parser = CommandParser(
        prog="hookline stalled",
        description="Tells what engines do, also those that hang or have died: which "
        "requests, since when, and who waits. The exit status is 1 if one of them "
        "hangs, was killed or has failed.",
    )
    parser.add_argument(
        "source",
        nargs="?",
        metavar="SOURCE",
        help="a server's URL or HOST:PORT, a process of this machine, or a recording; "
        "by default all rings of this user",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_api_key(parser, "admin")
    given = parser.parse_args(argv)
    found = _found(given.source, given.api_key)
    if given.json:
        say(json.dumps(found))
    else:
        say("\n".join(str(each["told"]) for each in found))
    return STALLED if any(each["condition"] in _ENDED for each in found) else 0


def _found(source: str | None, key: str | None) -> list[dict[str, object]]:
    """Returns how each engine is, for machines; what is for people is `told`."""
    if (url := url_of(source)) is None:
        return [each.fields() for each in standstills(paths_of(source))]
    text = ask_page(url, f"{STALLED_PATH}?format=json", key)
    try:
        found: list[dict[str, object]] = json.loads(text)
        return [each | {"told": str(each["told"])} for each in found]
    except (ValueError, LookupError, TypeError) as error:
        raise CommandFailedError(f"{url} answers something else: {error}") from error
