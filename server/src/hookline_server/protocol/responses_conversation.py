"""Converts the items of `/v1/responses` to messages for the chat template."""

from collections.abc import Iterable, Sequence
from itertools import groupby

from hookline.exceptions import RequestError
from hookline.request_limits import CONTENT_PARTS, MESSAGES, TOOL_CALLS
from hookline_server.protocol.content_parts import read_parts, reasoning_text
from hookline_server.protocol.ignored import Ignored
from hookline_server.protocol.message import reasoning_names
from hookline_server.protocol.past_items import PastItems
from hookline_server.protocol.responses_items import (
    CALLS,
    MORE_TOOLS,
    RESULTS,
    ROLES,
    InputItem,
    Placed,
)
from hookline_server.protocol.sealed_reasoning import unsealed
from hookline_server.protocol.system_text import without_billing

_SYSTEM = ("system", "developer")


def conversation_messages(
    instructions: str | None, items: Sequence[Placed], ignored: Ignored
) -> list[dict[str, object]]:
    """Returns the messages for the chat template.

    Consecutive items of the assistant become one message.

    Args:
        instructions: The first message's text, or None.
        items: The items.
        ignored: Gets the parts that are left out.

    Raises:
        LimitError: They are too many, or calls are nested too deeply.
        RequestError: One is wrong or not supported.
    """
    _check_sizes([item for _, item in items])
    conversation = _Conversation(ignored, _start_of_question(items))
    rendered: list[dict[str, object]] = []
    places = [each for each in enumerate(items) if _is_rendered(each[1][1])]
    for is_assistant, turn in groupby(places, key=_is_assistants):
        if is_assistant:
            rendered += conversation.assistant(placed for _, placed in turn)
        else:
            for index, (place, item) in turn:
                rendered += conversation.other(item, place, index)
    if not rendered:
        raise RequestError("input has no item that this server reads", param="input")
    return [*_system(instructions or None, ignored), *rendered]


def check_item(item: InputItem, place: str) -> None:
    """Raises `RequestError` if a conversation cannot have such a message."""
    if item.kind == "message" and item.role not in ROLES:
        raise RequestError(
            f"{place}.role must be one of {', '.join(ROLES)}, not {item.role!r}",
            param=f"{place}.role",
        )


class _Conversation:
    def __init__(self, ignored: Ignored, question: int) -> None:
        """Converts nothing yet.

        Args:
            ignored: Gets the parts that are left out.
            question: Index of the first item that the assistant has not answered.
        """
        self._ignored = ignored
        self._question = question
        self._past_items = PastItems(ignored)

    def assistant(self, items: Iterable[Placed]) -> list[dict[str, object]]:
        """Converts one turn of the assistant, of which nothing may be readable."""
        texts: list[str] = []
        reasoning: list[str] = []
        calls: list[dict[str, object]] = []
        for place, item in items:
            match item.kind:
                case "message":
                    texts.append(self._text(item, place, is_past=True))
                case "reasoning":
                    reasoning += self._reasoning(item)
                case _:
                    calls.append(self._past_items.call(item, place))
        if not texts and not reasoning and not calls:
            return []
        content = "\n".join(texts)
        message: dict[str, object] = {"role": "assistant", "content": content}
        if calls:
            message["tool_calls"] = calls
        return [message | reasoning_names("\n".join(reasoning), content)]

    def other(self, item: InputItem, place: str, index: int) -> list[dict[str, object]]:
        """Converts an item of anybody else, of which nothing may be left."""
        if item.kind in RESULTS:
            return [self._past_items.result(item, place)]
        text = self._text(item, place, is_past=index < self._question)
        if item.kind == "agent_message":
            return [{"role": "user", "content": f"{item.author or 'agent'}: {text}"}]
        if item.role in _SYSTEM:
            return _system(text, self._ignored)
        return [{"role": "user", "content": text}]

    def _text(self, item: InputItem, place: str, *, is_past: bool) -> str:
        place, content = f"{place}.content", item.content
        role = "system" if item.role in _SYSTEM else item.role or "user"
        if isinstance(content, list):
            read = read_parts(content, place, role, self._ignored, is_past=is_past)
            return read.text
        if content is None and role != "assistant":
            raise RequestError(f"{place} is missing", param=place)
        return content or ""

    def _reasoning(self, item: InputItem) -> list[str]:
        """Returns the text of reasoning, or of its summary without others."""
        texts = (
            reasoning_text(item.content),
            unsealed(item.encrypted_content),
            reasoning_text(item.summary),
        )
        text = next(filter(None, texts), "")
        if not text and item.encrypted_content:
            self._ignored.add("item", item.kind)
        return [text] if text else []


def _system(text: str | None, ignored: Ignored) -> list[dict[str, object]]:
    """Returns the message of a text of the system; none if nothing is left of it."""
    kept = without_billing(text or "", ignored)
    return [{"role": "system", "content": kept}] if kept or text == "" else []


def _check_sizes(items: Sequence[InputItem]) -> None:
    MESSAGES.check(len(items), param="input")
    lists = (each for item in items for each in (item.content, item.output))
    parts = sum(len(each) for each in lists if isinstance(each, list))
    summaries = (item.summary for item in items)
    parts += sum(len(each) for each in summaries if isinstance(each, list))
    CONTENT_PARTS.check(parts, param="input")
    TOOL_CALLS.check(sum(item.kind in CALLS for item in items), param="input")


def _start_of_question(items: Sequence[Placed]) -> int:
    """Returns the index of the first item after all those of turns of the model."""
    for index in range(len(items) - 1, -1, -1):
        item = items[index][1]
        if item.role == "assistant" or item.kind not in ("message", MORE_TOOLS):
            return index + 1
    return 0


def _is_rendered(item: InputItem) -> bool:
    """Whether the template gets an item; searches of a server have no id."""
    if item.kind.startswith("tool_search_"):
        return item.call_id is not None
    return item.kind != MORE_TOOLS


def _is_assistants(indexed: tuple[int, Placed]) -> bool:
    item = indexed[1][1]
    return item.kind in ("reasoning", *CALLS) or (
        item.kind == "message" and item.role == "assistant"
    )
