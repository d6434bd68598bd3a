"""A process that answers a page: a large ring takes seconds, and the server goes on."""

import gc
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from hookline_insight.answers import NEWEST, UnknownRequestError, of_request, shown
from hookline_insight.reports import EATS, report, standstills, told
from hookline_insight.selection import Selection, selected
from hookline_insight.sources import explainers, saved_paths
from hookline_processes.python import start_python
from hookline_recording.folder import find_rings

_TIMEOUT_SECONDS = 9.0  # the server waits ten for a page
_POLITENESS = 5
"""Others come first: engines compute on the same cores."""


class Question(msgspec.Struct, frozen=True):
    """What a page asks.

    Attributes:
        pid: The server's, whose engines it asks about.
        request: Name of a request; None for a list of them, or for whole engines.
        query: What else.
        is_json: Whether the answer is for machines.
        is_stalled: Whether it asks how the engines are.
    """

    pid: int
    request: str | None
    query: Mapping[str, str]
    is_json: bool
    is_stalled: bool = False


class Reply(msgspec.Struct, frozen=True):
    """The answer, with its HTTP status."""

    status: int
    text: str


def ask(question: Question) -> Reply:
    """Has a process of its own answer.

    Raises:
        OSError: It cannot be started.
        subprocess.TimeoutExpired: It takes too long.
        ValueError: It fails.
    """
    with start_python(
        *("-m", __name__), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            told, _ = process.communicate(
                msgspec.json.encode(question), _TIMEOUT_SECONDS
            )
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    return msgspec.json.decode(told, type=Reply)


def answer(question: Question) -> Reply:
    """Answers from the rings of a server's engines, or else from what was saved."""
    paths = [path for path, _ in find_rings(question.pid)]
    try:
        if question.request is not None:
            found = of_request(question.request, paths, others=saved_paths())
            return Reply(200, shown(found, is_json=question.is_json, is_list=False))
        if not paths:
            return Reply(404, "no engine of this server has a ring on this machine")
        return Reply(200, _of_engines(question, paths))
    except UnknownRequestError as error:
        return Reply(404, str(error))
    except ValueError as error:
        return Reply(400, str(error))


def _of_engines(question: Question, paths: list[Path]) -> str:
    """Answers what is not about one request.

    Raises:
        ValueError: It asks for something that there is not.
    """
    query, is_json = question.query, question.is_json
    if question.is_stalled:
        return told(standstills(paths), is_json=is_json)
    eats, is_bound = query.get("eats"), "bound" in query
    if eats is not None or is_bound:
        if eats not in (None, *EATS):
            raise ValueError(f"eats is one of {', '.join(EATS)}")
        found = explainers(paths, NEWEST)
        return report(found, eats=eats, is_bound=is_bound, is_json=is_json)
    slowest = int(query["slowest"]) if "slowest" in query else None
    asked = Selection.of(slowest, query.get("misses"), query.get("tenant"))
    chosen = selected(asked or Selection(), explainers(paths, NEWEST))
    return shown(chosen, is_json=is_json, is_list=True)


def main() -> None:
    """Answers the question on standard input."""
    gc.disable()  # it ends before there is garbage
    os.nice(_POLITENESS)
    question = msgspec.json.decode(sys.stdin.buffer.read(), type=Question)
    sys.stdout.buffer.write(msgspec.json.encode(answer(question)))


if __name__ == "__main__":
    main()
