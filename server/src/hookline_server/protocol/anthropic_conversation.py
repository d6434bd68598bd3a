"""Converts the messages of Anthropic's API, which consist of blocks."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Annotated

import msgspec

from hookline.exceptions import RequestError
from hookline.request_limits import CONTENT_PARTS, MESSAGES, TOOL_CALLS
from hookline_server.protocol.message import reasoning_names
from hookline_server.protocol.past_calls import PastCalls
from hookline_server.protocol.schema_notes import bounds
from hookline_server.protocol.wire import Name

_BLOCKS = {
    "user": ("text", "tool_result"),
    "assistant": ("text", "tool_use", "thinking"),
}
"""Supported blocks by the role of the message."""

_TYPES = sorted({each for blocks in _BLOCKS.values() for each in blocks})


class TextBlock(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A block of the system prompt or of a tool's result; only text is supported."""

    type: Annotated[Name, bounds(const="text")]
    text: str | None = None


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """A block of a message, with the fields of all supported types."""

    type: Annotated[Name, bounds(enum=_TYPES)]
    text: str | None = None
    thinking: str | None = None
    id: Name | None = None
    name: Name | None = None
    input: dict[str, object] | None = None
    tool_use_id: Name | None = None
    content: str | list[TextBlock] | None = None


class InputMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a conversation."""

    role: Annotated[Name, bounds(enum=tuple(_BLOCKS))]
    content: str | Annotated[list[Block], bounds(minItems=1)]


_Placed = tuple[str, Block]
"""A block and where it stands in the request."""


def conversation_messages(
    system: str | Sequence[TextBlock] | None, messages: Sequence[InputMessage]
) -> list[dict[str, object]]:
    """Returns the messages for the chat template.

    Consecutive messages of one role become one turn, as in Anthropic's API. Results of
    tools are messages of their own.

    Raises:
        LimitError: They are too many, or calls are nested too deeply.
        RequestError: One is wrong or not supported.
    """
    _check_sizes(system, messages)
    rendered: list[dict[str, object]] = []
    if system:
        text = _joined(system, "system")
        rendered.append({"role": "system", "content": text})
    past_calls = PastCalls()
    turns = groupby(enumerate(messages), key=lambda each: each[1].role)
    for role, turn in turns:
        blocks = [block for number, each in turn for block in _blocks(each, number)]
        if role == "user":
            rendered += _user(blocks)
        else:
            rendered.append(_assistant(blocks, past_calls))
    return rendered


def begins_reply(messages: Sequence[InputMessage]) -> bool:
    """Returns whether the last message begins the reply, which continues it.

    Raises:
        RequestError: That message does not end with text.
    """
    last = messages[-1]
    if last.role != "assistant":
        return False
    if not isinstance(last.content, str) and last.content[-1].type != "text":
        place = f"messages[{len(messages) - 1}].content[{len(last.content) - 1}]"
        raise RequestError(
            f"{place}: only a message that ends with text can be continued; send the "
            "results of tools in a message of the role user",
            param=place,
        )
    return True


def _check_sizes(
    system: str | Sequence[TextBlock] | None, messages: Sequence[InputMessage]
) -> None:
    MESSAGES.check(len(messages))
    contents = [each.content for each in messages]
    blocks = [block for each in contents if isinstance(each, list) for block in each]
    inner = (block.content for block in blocks)
    lists = [each for each in (system, *inner) if isinstance(each, list)]
    CONTENT_PARTS.check(len(blocks) + sum(map(len, lists)))
    TOOL_CALLS.check(sum(block.type == "tool_use" for block in blocks))


def _blocks(message: InputMessage, number: int) -> Iterator[_Placed]:
    place = f"messages[{number}]"
    if message.role not in _BLOCKS:
        raise RequestError(
            f"{place}.role must be user or assistant, not {message.role!r}; "
            "instructions belong in the field system",
            param=f"{place}.role",
        )
    place = f"{place}.content"
    if isinstance(message.content, str):
        yield place, Block(type="text", text=message.content)
        return
    if not message.content:
        raise RequestError(f"{place} must not be empty", param=place)
    for index, block in enumerate(message.content):
        here = f"{place}[{index}]"
        if block.type not in _BLOCKS[message.role]:
            raise RequestError(
                f"{here}: a block of type {block.type!r} is not supported in a message "
                f"of the role {message.role}, only {', '.join(_BLOCKS[message.role])}",
                param=here,
            )
        yield here, block


def _user(blocks: Iterable[_Placed]) -> Iterator[dict[str, object]]:
    """Yields the results of tools, and the texts between them."""
    kinds = groupby(blocks, key=lambda each: each[1].type)
    for kind, group in kinds:
        if kind == "text":
            text = "\n".join(_text(block.text, place) for place, block in group)
            yield {"role": "user", "content": text}
        else:
            for place, block in group:
                yield _result(block, place)


def _result(block: Block, place: str) -> dict[str, object]:
    if block.tool_use_id is None:
        raise _missing(f"{place}.tool_use_id")
    return {
        "role": "tool",
        "content": _joined(block.content or "", f"{place}.content"),
        "tool_call_id": block.tool_use_id,
    }


def _assistant(blocks: Iterable[_Placed], past_calls: PastCalls) -> dict[str, object]:
    texts, reasoning, calls = [], [], []
    for place, block in blocks:
        match block.type:
            case "text":
                texts.append(_text(block.text, place))
            case "thinking":
                reasoning.append(_text(block.thinking, place, "thinking"))
            case _:
                calls.append(_call(block, place, past_calls))
    content = "\n".join(texts)
    message: dict[str, object] = {"role": "assistant", "content": content}
    if calls:
        message["tool_calls"] = calls
    return message | reasoning_names("\n".join(reasoning), content)


def _call(block: Block, place: str, past_calls: PastCalls) -> dict[str, object]:
    for name in ("id", "name"):
        if not getattr(block, name):
            raise _missing(f"{place}.{name}")
    given = block.input or {}
    past_calls.check(msgspec.json.encode(given), f"{place}.input")
    function = {"name": block.name, "arguments": given}
    return {"id": block.id, "type": "function", "function": function}


def _joined(given: str | Sequence[TextBlock], place: str) -> str:
    if isinstance(given, str):
        return given
    texts = []
    for index, block in enumerate(given):
        here = f"{place}[{index}]"
        if block.type != "text":
            raise RequestError(
                f"{here}: a block of type {block.type!r} is not supported, only text",
                param=here,
            )
        texts.append(_text(block.text, here))
    return "\n".join(texts)


def _text(given: str | None, place: str, field: str = "text") -> str:
    if given is None:
        raise _missing(f"{place}.{field}")
    return given


def _missing(field: str) -> RequestError:
    return RequestError(f"{field} is missing", param=field)
