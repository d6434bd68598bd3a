"""Puts the system messages of a conversation where its chat template allows them.

Agents add system messages anywhere; many templates take one at the start only, and
some take none.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from itertools import pairwise

Message = Mapping[str, object]
Render = Callable[[Sequence[Message]], str | None]
"""Returns a conversation as text; None if the template refuses it."""


class SystemPlace(IntEnum):
    """Where a chat template allows system messages."""

    NOWHERE = 0
    FIRST = 1
    ANYWHERE = 2


_FIRST = (
    {"role": "system", "content": "Alpha one."},
    {"role": "user", "content": "Bravo two."},
)
_ANYWHERE = (
    *_FIRST,
    {"role": "system", "content": "Charlie three."},
    {"role": "assistant", "content": "Delta four."},
    {"role": "user", "content": "Echo five."},
    {"role": "system", "content": "Foxtrot six."},
)
_OTHERS = ("user", "assistant")


def allowed_place(render: Render) -> SystemPlace:
    """Finds out where a template allows system messages, by rendering short ones.

    One that leaves them out, moves them or attributes them to somebody else does not
    allow them there.
    """
    text = render(_ANYWHERE)
    if text is not None and _keeps_order(text, _ANYWHERE):
        are_others = {render(_attributed(role)) == text for role in _OTHERS}
        if len(are_others) == 1:  # or the template shows no roles at all
            return SystemPlace.ANYWHERE
    text = render(_FIRST)
    return SystemPlace(text is not None and _keeps_order(text, _FIRST))


def _attributed(role: str) -> list[Message]:
    """Returns the conversation with late messages of this role instead of systems."""
    return [
        _ANYWHERE[0],
        *(
            {**each, "role": role} if each["role"] == "system" else each
            for each in _ANYWHERE[1:]
        ),
    ]


def _keeps_order(text: str, messages: Sequence[Message]) -> bool:
    places = [text.find(str(each["content"])) for each in messages]
    return places[0] >= 0 and all(one < other for one, other in pairwise(places))


def has_late(messages: Sequence[Message]) -> bool:
    """Returns whether a system message follows another message."""
    return any(each.get("role") == "system" for each in messages[1:])


def arranged(messages: Sequence[Message], place: SystemPlace) -> Sequence[Message]:
    """Returns a conversation whose system messages stand where a template allows them.

    What stood elsewhere is merged into the first message, in order: a system message,
    or that of the user if the template has none. The user's messages between which one
    stood become one.
    """
    if place is SystemPlace.ANYWHERE:
        return messages
    texts = [_text(each) for each in messages if each.get("role") == "system"]
    others = _without_system(messages)
    system = "\n\n".join(filter(None, texts))
    if not system:
        return others
    if place is SystemPlace.FIRST:
        return [{"role": "system", "content": system}, *others]
    for index, each in enumerate(others):
        if each.get("role") == "user":
            others[index] = _joined({**each, "content": system}, each)
            return others
    return [{"role": "user", "content": system}, *others]


def _without_system(messages: Sequence[Message]) -> list[Message]:
    kept: list[Message] = []
    follows_system = False
    for each in messages:
        role = each.get("role")
        if role == "system":
            follows_system = True
            continue
        if follows_system and kept and role == kept[-1].get("role") == "user":
            kept[-1] = _joined(kept[-1], each)
        else:
            kept.append(each)
        follows_system = False
    return kept


def _joined(one: Message, other: Message) -> Message:
    text = "\n\n".join(filter(None, (_text(one), _text(other))))
    return {**one, "content": text}


def _text(message: Message) -> str:
    content = message.get("content")
    return content if isinstance(content, str) else ""
