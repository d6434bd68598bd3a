"""Calls as JSON objects, or as a list of them."""

from collections.abc import Callable, Container

from hookline_server.reply_parsing.call_object import CallObject
from hookline_server.reply_parsing.parts import Repair
from hookline_server.reply_parsing.stepped_parser import SteppedToolParser, ToolSteps


def json_calls(
    parser: SteppedToolParser,
    *,
    names: Container[str] | None = None,
    make_id: Callable[[], str | None] = lambda: None,
) -> ToolSteps[bool]:
    """Yields the calls of one or several objects, or of a list.

    What follows a call, is JSON, and is not one, is content.

    Args:
        parser: The parser, whose reader is at the object or the list.
        names: Functions that count as calls, and then only with arguments; None takes
            any name.
        make_id: Makes the calls' ids.

    Returns:
        Whether there was a call. If not, nothing was yielded, and the reader has
        recorded what was read.
    """
    reader = parser.reader
    is_list = yield from reader.accept("[")
    has_calls = has_comma = False
    while True:
        yield from reader.skip_space()
        if (yield from reader.accept(",")):
            has_comma = True
            continue
        if has_calls and not has_comma and (yield from reader.accept("}")):
            yield Repair("bracket")
            continue
        if (yield from reader.peek()) != "{":
            break
        call = CallObject(
            parser, names=names, needs_arguments=names is not None, make_id=make_id
        )
        if not (yield from call.steps()):
            if has_calls:
                yield parser.not_a_call("")
            return has_calls
        has_calls, has_comma = True, False
        reader.record()
    if is_list:
        yield from reader.accept("]")
    elif has_calls and has_comma:
        yield parser.not_a_call("")
        return True
    if has_calls:
        reader.recorded()
    return has_calls
