"""Switches of reasoning by the names that other servers have for them, in chats.

`chat_template_kwargs`, `reasoning_effort` and `thinking_token_budget` say the same, and
prevail.
"""

from dataclasses import dataclass

import msgspec

from hookline.exceptions import RequestError
from hookline_server.protocol.chat import ChatRequest
from hookline_server.protocol.wire import Int64, Name, convert

_TYPES = {"enabled": True, "disabled": False, "adaptive": None, "auto": None}
"""Types of `thinking`; None leaves it to the model."""


class _Thinking(msgspec.Struct, frozen=True, kw_only=True):
    type: Name = "enabled"
    budget_tokens: Int64 | None = None


class _Reasoning(msgspec.Struct, frozen=True, kw_only=True):
    enabled: bool | None = None
    effort: str | None = None
    max_tokens: Int64 | None = None
    exclude: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What one field asks for.

    Attributes:
        is_on: Whether the model reasons; None leaves it open.
        effort: How hard.
        budget: Maximum tokens.
        is_hidden: Whether the client gets no reasoning.
    """

    is_on: bool | None = None
    effort: str | None = None
    budget: int | None = None
    is_hidden: bool = False


def with_switches(request: ChatRequest) -> ChatRequest:
    """Returns a request with its switches under this server's names.

    Raises:
        RequestError: One has a value that says nothing, or two contradict each other.
    """
    found = {
        name: read(given)
        for name, read in _READERS.items()
        if (given := getattr(request, name)) is not None
    }
    if not found:
        return request
    for name, each in found.items():
        if each.budget is not None and each.budget < -1:
            reason = f"{name}: a budget must be at least 0, or -1 for none"
            raise RequestError(reason, param=name)
    states = {each.is_on for each in found.values()} - {None}
    if len(states) > 1:
        names = " and ".join(found)
        raise RequestError(f"{names} contradict each other", param=next(iter(found)))
    changes: dict[str, object] = {}
    if states:
        switches = dict.fromkeys(("enable_thinking", "thinking"), states.pop())
        given = request.chat_template_kwargs or {}
        changes["chat_template_kwargs"] = {**switches, **given}
    for each in found.values():
        if each.effort is not None and request.reasoning_effort is None:
            changes["reasoning_effort"] = each.effort
        if each.budget is not None and request.thinking_token_budget is None:
            changes["thinking_token_budget"] = each.budget
        if each.is_hidden and request.include_reasoning is None:
            changes["include_reasoning"] = False
    return msgspec.structs.replace(request, **changes)


def _switch(given: object) -> _Asked:
    return _Asked(is_on=bool(given))


def _think(given: object) -> _Asked:
    """Ollama's: whether, or how hard."""
    if isinstance(given, str):
        return _Asked(is_on=given != "none" or None, effort=given)
    return _Asked(is_on=bool(given))


def _thinking(given: object) -> _Asked:
    """DeepSeek's and others': Anthropic's object, or whether."""
    if isinstance(given, bool):
        return _Asked(is_on=given)
    thinking = convert(given, _Thinking, "thinking")
    if thinking.type not in _TYPES:
        raise RequestError(
            f"thinking.type must be one of {', '.join(_TYPES)}, not "
            f"{thinking.type[:64]!r}",
            param="thinking.type",
        )
    return _Asked(is_on=_TYPES[thinking.type], budget=thinking.budget_tokens)


def _reasoning(given: object) -> _Asked:
    """OpenRouter's, and that of OpenAI's responses."""
    if isinstance(given, bool | str):
        return _think(given)
    reasoning = convert(given, _Reasoning, "reasoning")
    return _Asked(
        is_on=reasoning.enabled,
        effort=reasoning.effort,
        budget=reasoning.max_tokens,
        is_hidden=bool(reasoning.exclude),
    )


def _budget(given: object) -> _Asked:
    assert isinstance(given, int), "the request has been decoded"
    return _Asked(budget=given)


_READERS = {
    "enable_thinking": _switch,
    "think": _think,
    "thinking": _thinking,
    "reasoning": _reasoning,
    "thinking_budget": _budget,
}
"""What reads each field; the name of a field is that of the request."""
