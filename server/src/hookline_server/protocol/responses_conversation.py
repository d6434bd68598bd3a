"""Converts the items of `/v1/responses` to messages for the chat template."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from hookline.exceptions import RequestError
from hookline.request_limits import CONTENT_PARTS, MESSAGES, TOOL_CALLS
from hookline_server.protocol.ignored import Ignored
from hookline_server.protocol.message import reasoning_names
from hookline_server.protocol.past_calls import PastCalls, PastFunction
from hookline_server.protocol.responses_items import (
    KINDS,
    ROLES,
    InputItem,
    ItemPart,
    Parts,
)

_TEXTS = ("input_text", "output_text", "refusal")
"""Types of parts in messages and results."""

_TEMPLATE_ROLES = {"developer": "system"}

Placed = tuple[str, InputItem]
"""An item and where it stands in the request."""


def conversation_messages(
    instructions: str | None, items: Sequence[Placed], ignored: Ignored
) -> list[dict[str, object]]:
    """Returns the messages for the chat template.

    Consecutive items of the assistant become one message.

    Raises:
        LimitError: They are too many, or calls are nested too deeply.
        RequestError: One is wrong or not supported.
    """
    _check_sizes([item for _, item in items])
    rendered: list[dict[str, object]] = []
    if instructions:
        rendered.append({"role": "system", "content": instructions})
    past_calls = PastCalls(ignored)
    for is_assistant, turn in groupby(items, key=_is_assistants):
        if is_assistant:
            rendered.append(_assistant(turn, past_calls))
        else:
            rendered += (_other(item, place) for place, item in turn)
    return rendered


def check_item(item: InputItem, place: str) -> None:
    """Raises `RequestError` if a conversation cannot have an item of this type."""
    if item.kind not in KINDS:
        raise RequestError(
            f"{place}: an item of type {item.kind!r} is not supported, only "
            f"{', '.join(KINDS)}",
            param=place,
        )
    if item.kind == "message" and item.role not in ROLES:
        raise RequestError(
            f"{place}.role must be one of {', '.join(ROLES)}, not {item.role!r}",
            param=f"{place}.role",
        )


def _check_sizes(items: Sequence[InputItem]) -> None:
    MESSAGES.check(len(items), param="input")
    lists = (each for item in items for each in (item.content, item.output))
    parts = sum(len(each) for each in lists if isinstance(each, list))
    parts += sum(len(item.summary or ()) for item in items)
    CONTENT_PARTS.check(parts, param="input")
    calls = sum(item.kind == "function_call" for item in items)
    TOOL_CALLS.check(calls, param="input")


def _is_assistants(placed: Placed) -> bool:
    _, item = placed
    return item.kind in ("function_call", "reasoning") or (
        item.kind == "message" and item.role == "assistant"
    )


def _other(item: InputItem, place: str) -> dict[str, object]:
    if item.kind == "function_call_output":
        return _result(item, place)
    role = item.role or "user"
    return {
        "role": _TEMPLATE_ROLES.get(role, role),
        "content": _text(item.content, f"{place}.content"),
    }


def _result(item: InputItem, place: str) -> dict[str, object]:
    _check_given(item, ("call_id", "output"), place)
    return {
        "role": "tool",
        "content": _text(item.output, f"{place}.output"),
        "tool_call_id": item.call_id,
    }


def _assistant(items: Iterable[Placed], past_calls: PastCalls) -> dict[str, object]:
    texts: list[str] = []
    reasoning: list[str] = []
    calls: list[dict[str, object]] = []
    for place, item in items:
        match item.kind:
            case "message":
                texts.append(_text(item.content, f"{place}.content"))
            case "reasoning":
                reasoning += _reasoning(item, place)
            case _:
                calls.append(_call(item, place, past_calls))
    content = "\n".join(texts)
    message: dict[str, object] = {"role": "assistant", "content": content}
    if calls:
        message["tool_calls"] = calls
    return message | reasoning_names("\n".join(reasoning), content)


def _reasoning(item: InputItem, place: str) -> Iterator[str]:
    """Yields the texts of reasoning, or of its summary if there is nothing else.

    Encrypted reasoning is left out: only the server that made it can read it.
    """
    parts = item.content or item.summary or []
    if isinstance(parts, str):
        yield parts
        return
    field = "content" if item.content else "summary"
    for index, part in enumerate(parts):
        yield _given(part.text, f"{place}.{field}[{index}].text")


def _call(item: InputItem, place: str, past_calls: PastCalls) -> dict[str, object]:
    _check_given(item, ("call_id", "name", "arguments"), place)
    given = PastFunction(name=item.name or "", arguments=item.arguments)
    function = past_calls.function(given, place)
    return {"id": item.call_id, "type": "function", "function": function}


def _text(given: Parts | None, place: str) -> str:
    if isinstance(given, str):
        return given
    if given is None:
        raise _missing(place)
    return "\n".join(
        _part_text(part, f"{place}[{number}]") for number, part in enumerate(given)
    )


def _part_text(part: ItemPart, place: str) -> str:
    if part.type not in _TEXTS:
        raise RequestError(
            f"{place}: content of type {part.type!r} is not supported, only text is",
            param=place,
        )
    if part.type == "refusal":
        return _given(part.refusal, f"{place}.refusal")
    return _given(part.text, f"{place}.text")


def _check_given(item: InputItem, names: Sequence[str], place: str) -> None:
    for name in names:
        if getattr(item, name) is None:
            raise _missing(f"{place}.{name}")


def _given(text: str | None, place: str) -> str:
    if text is None:
        raise _missing(place)
    return text


def _missing(field: str) -> RequestError:
    return RequestError(f"{field} is missing", param=field)
