"""Converts the items of `/v1/responses` to messages for the chat template."""

from collections.abc import Iterable, Sequence
from itertools import groupby

from hookline.exceptions import RequestError
from hookline.request_limits import CONTENT_PARTS, MESSAGES, TOOL_CALLS
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
from hookline_server.protocol.responses_parts import given_text, parts_text
from hookline_server.protocol.sealed_reasoning import unsealed

_TEMPLATE_ROLES = {"developer": "system"}


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
            rendered += (
                conversation.other(item, place, index) for index, (place, item) in turn
            )
    if not rendered:
        raise RequestError("input has no item that this server reads", param="input")
    system = [{"role": "system", "content": instructions}] if instructions else []
    return [*system, *rendered]


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
                    content = item.content or ""  # null beside calls
                    texts.append(parts_text(content, f"{place}.content", self._ignored))
                case "reasoning":
                    reasoning += self._reasoning(item, place)
                case _:
                    calls.append(self._past_items.call(item, place))
        if not texts and not reasoning and not calls:
            return []
        content = "\n".join(texts)
        message: dict[str, object] = {"role": "assistant", "content": content}
        if calls:
            message["tool_calls"] = calls
        return [message | reasoning_names("\n".join(reasoning), content)]

    def other(self, item: InputItem, place: str, index: int) -> dict[str, object]:
        """Converts an item of anybody else."""
        if item.kind in RESULTS:
            return self._past_items.result(item, place)
        text = parts_text(
            item.content,
            f"{place}.content",
            self._ignored,
            is_asked=index >= self._question,
        )
        if item.kind == "agent_message":
            return {"role": "user", "content": f"{item.author or 'agent'}: {text}"}
        role = item.role or "user"
        return {"role": _TEMPLATE_ROLES.get(role, role), "content": text}

    def _reasoning(self, item: InputItem, place: str) -> list[str]:
        """Returns the texts of reasoning, or of its summary without others."""
        if not item.content and (text := unsealed(item.encrypted_content)) is not None:
            return [text]
        parts = item.content or item.summary or []
        if isinstance(parts, str):
            return [parts]
        if not parts and item.encrypted_content:
            self._ignored.add("item", item.kind)
        field = "content" if item.content else "summary"
        return [
            given_text(part.text, f"{place}.{field}[{index}].text")
            for index, part in enumerate(parts)
        ]


def _check_sizes(items: Sequence[InputItem]) -> None:
    MESSAGES.check(len(items), param="input")
    lists = (each for item in items for each in (item.content, item.output))
    parts = sum(len(each) for each in lists if isinstance(each, list))
    parts += sum(len(item.summary or ()) for item in items)
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
