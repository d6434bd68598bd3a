"""Converts the messages of Anthropic's API, which consist of blocks."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Annotated

import msgspec

from hookline.exceptions import RequestError
from hookline.request_limits import CONTENT_PARTS, MESSAGES, TOOL_CALLS
from hookline_server.protocol.anthropic_blocks import (
    MEDIA,
    Block,
    BlockReader,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    block_type,
)
from hookline_server.protocol.ignored import Ignored
from hookline_server.protocol.message import reasoning_names
from hookline_server.protocol.past_calls import PastCalls
from hookline_server.protocol.schema_notes import bounds
from hookline_server.protocol.system_text import without_billing
from hookline_server.protocol.wire import Name, convert

_ROLES = {
    "user": "user",
    "assistant": "assistant",
    "system": "system",
    "developer": "system",
    "ctx": "user",
    "msg": "user",
}
"""Role in requests → role in chat templates; the last two are Claude Code's."""

_MISPLACED = {("tool_result", "assistant"), ("tool_use", "user")}
"""Types of blocks, and the roles whose messages cannot have them."""


class InputMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a conversation."""

    role: Annotated[Name, bounds(enum=tuple(_ROLES))]
    content: str | list[Block]


@dataclass(frozen=True, slots=True)
class AnthropicConversation:
    """The messages of a request, as a chat template gets them.

    Attributes:
        messages: The messages.
        begins_reply: Whether the last one begins the reply, which continues it.
    """

    messages: list[dict[str, object]]
    begins_reply: bool


@dataclass(frozen=True, slots=True)
class _Piece:
    """What one block becomes: a text, reasoning, a call, or the message of a result."""

    kind: str
    text: str = ""
    content: dict[str, object] | None = None


def read_conversation(
    system: str | Sequence[Block] | None,
    messages: Sequence[InputMessage],
    ignored: Ignored,
) -> AnthropicConversation:
    """Converts a system prompt and messages.

    Consecutive messages of one role become one turn, as in Anthropic's API. Results of
    tools are messages of their own.

    Args:
        system: The system prompt.
        messages: The messages.
        ignored: Notes what is left out.

    Raises:
        LimitError: They are too many, or calls are nested too deeply.
        RequestError: One is wrong, or cannot be left out.
    """
    _check_sizes(system, messages)
    rendered: list[dict[str, object]] = []
    text = BlockReader(ignored).joined(system, "system")
    if text := without_billing(text, ignored):
        rendered.append({"role": "system", "content": text})
    roles = [_role(message, number) for number, message in enumerate(messages)]
    answers = [number for number, role in enumerate(roles) if role == "assistant"]
    reader = _Reader(ignored, question=answers[-1] + 1 if answers else 0)
    read = [
        (role, reader.pieces(message, role, number))
        for number, (role, message) in enumerate(zip(roles, messages, strict=True))
    ]
    for role, turn in groupby(filter(_is_left, read), key=lambda each: each[0]):
        rendered += _turn(role, [piece for _, pieces in turn for piece in pieces])
    if not any(map(_is_left, read)):
        raise RequestError(
            "messages: nothing is left of them that this model can use",
            param="messages",
        )
    return AnthropicConversation(rendered, _begins_reply(messages, read[-1]))


def _check_sizes(
    system: str | Sequence[Block] | None, messages: Sequence[InputMessage]
) -> None:
    MESSAGES.check(len(messages))
    contents = [each.content for each in messages]
    blocks = [block for each in contents if isinstance(each, list) for block in each]
    inner = (block.get("content") for block in blocks)
    lists = [each for each in (system, *inner) if isinstance(each, list)]
    CONTENT_PARTS.check(len(blocks) + sum(map(len, lists)))
    TOOL_CALLS.check(sum(block.get("type") == "tool_use" for block in blocks))


def _role(message: InputMessage, number: int) -> str:
    if message.role not in _ROLES:
        raise RequestError(
            f"messages[{number}].role must be user, assistant or system, not "
            f"{message.role!r}",
            param=f"messages[{number}].role",
        )
    return _ROLES[message.role]


def _is_left(read: tuple[str, Sequence[_Piece]]) -> bool:
    return bool(read[1])


class _Reader:
    """Reads the blocks of a request's messages."""

    def __init__(self, ignored: Ignored, question: int) -> None:
        """Notes what is left out; the messages before `question` were answered."""
        self._ignored = ignored
        self._question = question
        self._past_calls = PastCalls(ignored)

    def pieces(self, message: InputMessage, role: str, number: int) -> list[_Piece]:
        """Returns what a message consists of, without what the model cannot use."""
        place, content = f"messages[{number}].content", message.content
        blocks = BlockReader(self._ignored, is_past=number < self._question)
        if role == "system":
            text = without_billing(blocks.joined(content, place), self._ignored)
            return [_Piece("text", text)] if text else []
        if isinstance(content, str):
            return [_Piece("text", content)]
        if not content and role == "user":
            raise RequestError(f"{place} must not be empty", param=place)
        found = (
            self._piece(block, role, f"{place}[{index}]", blocks)
            for index, block in enumerate(content)
        )
        return [piece for piece in found if piece is not None]

    def _piece(
        self, block: object, role: str, place: str, blocks: BlockReader
    ) -> _Piece | None:
        kind = block_type(block, place)
        if (kind, role) in _MISPLACED:
            raise RequestError(
                f"{place}: a block of type {kind!r} is not supported in a message of "
                f"the role {role}",
                param=place,
            )
        match kind:
            case "tool_use":
                return _Piece("call", content=self._call(block, place))
            case "tool_result":
                return _Piece("result", content=self._result(block, place))
            case "thinking" if role == "assistant":
                thinking = convert(block, ThinkingBlock, place).thinking
                return _Piece("reasoning", thinking)
            case _ if kind in MEDIA and role == "assistant":
                self._ignored.add("block", kind)
                return None
            case _:
                pass
        text = blocks.text(block, place)
        return None if text is None else _Piece("text", text)

    def _call(self, block: object, place: str) -> dict[str, object]:
        call = convert(block, ToolUseBlock, place)
        for name in ("id", "name"):
            if not getattr(call, name):
                field = f"{place}.{name}"
                raise RequestError(f"{field} is missing", param=field)
        arguments = self._past_calls.arguments(call.input, f"{place}.input")
        function = {"name": call.name, "arguments": arguments}
        return {"id": call.id, "type": "function", "function": function}

    def _result(self, block: object, place: str) -> dict[str, object]:
        result = convert(block, ToolResultBlock, place)
        blocks = BlockReader(self._ignored, is_past=True)
        text = blocks.joined(result.content, f"{place}.content")
        return {"role": "tool", "content": text, "tool_call_id": result.tool_use_id}


def _turn(role: str, pieces: Sequence[_Piece]) -> Iterator[dict[str, object]]:
    if role == "assistant":
        yield _assistant(pieces)
        return
    for is_text, group in groupby(pieces, key=lambda piece: piece.kind == "text"):
        if is_text:
            yield {"role": role, "content": _joined(group, "text")}
        else:
            yield from (piece.content for piece in group if piece.content is not None)


def _assistant(pieces: Sequence[_Piece]) -> dict[str, object]:
    content = _joined(pieces, "text")
    message: dict[str, object] = {"role": "assistant", "content": content}
    if calls := [piece.content for piece in pieces if piece.kind == "call"]:
        message["tool_calls"] = calls
    return message | reasoning_names(_joined(pieces, "reasoning"), content)


def _joined(pieces: Iterable[_Piece], kind: str) -> str:
    return "\n".join(piece.text for piece in pieces if piece.kind == kind)


def _begins_reply(
    messages: Sequence[InputMessage], last: tuple[str, Sequence[_Piece]]
) -> bool:
    """Returns whether the last message begins the reply.

    Raises:
        RequestError: It ends with a call, whose result is missing.
    """
    role, pieces = last
    if role != "assistant" or not pieces:
        return False
    if pieces[-1].kind == "call":
        last_block = len(messages[-1].content) - 1
        place = f"messages[{len(messages) - 1}].content[{last_block}]"
        raise RequestError(
            f"{place}: only a message that ends with text can be continued; send the "
            "results of tools in a message of the role user",
            param=place,
        )
    return pieces[-1].kind == "text"
