"""`hookline stalled`: what engines do that hang, or work, from outside."""

import argparse
import json
import time

from hookline_insight.explainer import Explainer
from hookline_insight.sources import is_live, paths_of, read
from hookline_insight.stalled import Condition, Standstill, standstill
from hookline_server.cli.output import say

STALLED = 1


def run(argv: list[str]) -> int:
    """Prints how each engine is; the exit status is 1 if one does not serve."""
    parser = argparse.ArgumentParser(
        prog="hookline stalled",
        description="Tells what engines of this machine do, also those that hang or "
        "have died: which requests, since when, and who waits. The exit status is 1 if "
        "one of them hangs, was killed or has failed.",
    )
    parser.add_argument(
        "source",
        nargs="?",
        metavar="PID|FILE",
        help="a process or a recording; by default all rings of this user",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args(argv)
    found: list[Standstill] = []
    for path in paths_of(given.source):
        live = is_live(path)
        recording, now = read(path), time.monotonic_ns()
        explainer = Explainer(recording, now if live else None)
        found.append(standstill(explainer, is_live=live, now=now))
    if given.json:
        say(json.dumps([each.fields() for each in found]))
    else:
        say("\n".join(line for each in found for line in each.lines()))
    ended = (Condition.HANGS, Condition.KILLED, Condition.FAILED)
    return STALLED if any(each.condition in ended for each in found) else 0
