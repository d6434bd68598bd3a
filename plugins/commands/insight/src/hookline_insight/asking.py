"""A process that answers a page: a large ring takes seconds, and the server goes on."""

import gc
import os
import subprocess
import sys
from collections.abc import Mapping

import msgspec

from hookline_insight.answers import NEWEST, UnknownRequestError, of_request, shown
from hookline_insight.selection import Selection, selected
from hookline_insight.sources import explainers, saved_paths
from hookline_processes.python import start_python
from hookline_recording.folder import find_rings

_TIMEOUT_SECONDS = 9.0  # the server waits ten for a page
_POLITENESS = 5
"""Others come first: engines compute on the same cores."""


class Question(msgspec.Struct, frozen=True):
    """What a page asks; `request` is None for a list of requests."""

    pid: int
    request: str | None
    query: Mapping[str, str]
    is_json: bool


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
    if question.request is not None:
        try:
            found = of_request(question.request, paths, others=saved_paths())
        except UnknownRequestError as error:
            return Reply(404, str(error))
    else:
        query = question.query
        try:
            slowest = int(query["slowest"]) if "slowest" in query else None
            asked = Selection.of(slowest, query.get("misses"), query.get("tenant"))
        except ValueError as error:
            return Reply(400, str(error))
        found = selected(asked or Selection(), explainers(paths, NEWEST))
    is_list = question.request is None
    return Reply(200, shown(found, is_json=question.is_json, is_list=is_list))


def main() -> None:
    """Answers the question on standard input."""
    gc.disable()  # it ends before there is garbage
    os.nice(_POLITENESS)
    question = msgspec.json.decode(sys.stdin.buffer.read(), type=Question)
    sys.stdout.buffer.write(msgspec.json.encode(answer(question)))


if __name__ == "__main__":
    main()
