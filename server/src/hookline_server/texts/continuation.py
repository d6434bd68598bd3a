"""Ends a rendered conversation inside of its last message, for the model to go on."""

from collections.abc import Mapping, Sequence

MARK = "HOOKLINE_FINAL_MESSAGE_ENDS_HERE"
"""Stands behind the last message while the template renders it."""

_SPACED = f"{MARK} "
"""Its space tells whether the template trims messages."""


class NothingToContinueError(Exception):
    """The rendered conversation does not have the last message as it was sent."""


def marked(messages: Sequence[Mapping[str, object]]) -> list[Mapping[str, object]]:
    """Returns the messages with a mark behind the text of the last one.

    Raises:
        NothingToContinueError: It has no text.
    """
    text = messages[-1].get("content") if messages else None
    if not isinstance(text, str):
        raise NothingToContinueError
    return [*messages[:-1], {**messages[-1], "content": text + _SPACED}]


def cut(rendered: str, messages: Sequence[Mapping[str, object]]) -> str:
    """Returns the conversation up to the end of the last message's text.

    A template that trims messages would have trimmed the end of that text, too.

    Args:
        rendered: What the template made of `marked(messages)`.
        messages: The messages.

    Raises:
        NothingToContinueError: The template left out the text, or its end.
    """
    place = rendered.rfind(MARK)
    if place < 0 or str(messages[-1]["content"]).strip() not in rendered:
        raise NothingToContinueError
    kept = rendered[:place]
    return kept if rendered.startswith(_SPACED, place) else kept.rstrip()
