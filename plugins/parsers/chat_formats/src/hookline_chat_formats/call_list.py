"""Calls as a JSON list of objects."""

from collections.abc import Callable, Container

from hookline_server.reply_parsing.call_object import CallObject
from hookline_server.reply_parsing.stepped_parser import SteppedToolParser, ToolSteps


def listed_calls(
    parser: SteppedToolParser,
    *,
    names: Container[str] | None = None,
    make_id: Callable[[], str | None] = lambda: None,
) -> ToolSteps[bool]:
    """Yields the calls of a list, and whatever follows them that is not a call.

    Args:
        parser: The parser, whose reader is at the list.
        names: Functions that count as calls; None takes any name.
        make_id: Makes the calls' ids.

    Returns:
        Whether there was a call. If not, nothing was yielded, and the reader has
        recorded what was read.
    """
    reader = parser.reader
    if not (yield from reader.accept("[")):
        return False
    has_calls = False
    while True:
        yield from reader.skip_space()
        if (yield from reader.accept(",")):
            continue
        if (yield from reader.peek()) != "{":
            yield from reader.accept("]")
            return has_calls
        call = CallObject(
            parser, names=names, needs_arguments=names is not None, make_id=make_id
        )
        if not (yield from call.steps()):
            break
        has_calls = True
        reader.record()
    if has_calls:
        yield parser.not_a_call("")
    return has_calls
