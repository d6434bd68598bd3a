"""The text of an item's content parts: the model reads nothing else."""

from collections.abc import Iterator

from hookline.exceptions import RequestError
from hookline_server.protocol.ignored import Ignored
from hookline_server.protocol.responses_items import ItemPart, Parts

_TEXTS = ("input_text", "output_text", "text")
_MEDIA = frozenset(
    {
        *("input_image", "input_file", "input_audio", "input_video"),
        *("image", "image_url", "file", "audio", "video", "document"),
        "computer_screenshot",
    }
)
"""Types of parts in whose place the model reads that it cannot see them."""


def parts_text(
    content: Parts | None, place: str, ignored: Ignored, *, is_asked: bool = False
) -> str:
    """Returns the text of content.

    An image or a file would change what a user now asks, and is refused there. Earlier
    ones, and those in results, become a note: clients send them again with each turn.

    Args:
        content: The content.
        place: Where it stands in the request.
        ignored: Gets the parts that are left out.
        is_asked: Whether a user asks it now.

    Raises:
        RequestError: There is none, or a part is wrong or not supported.
    """
    if isinstance(content, str):
        return content
    if content is None:
        raise missing(place)
    if is_asked:
        _check_readable(content, place)
    return "\n".join(_texts(content, place, ignored))


def given_text(text: str | None, place: str) -> str:
    """Returns a text; raises `RequestError` if there is none."""
    if text is None:
        raise missing(place)
    return text


def missing(field: str) -> RequestError:
    """Returns the error of a field that is missing."""
    return RequestError(f"{field} is missing", param=field)


def _check_readable(content: list[ItemPart], place: str) -> None:
    for number, part in enumerate(content):
        if part.type in _MEDIA:
            here = f"{place}[{number}]"
            raise RequestError(
                f"{here}: content of type {part.type!r} is not supported, only text is",
                param=here,
            )


def _texts(content: list[ItemPart], place: str, ignored: Ignored) -> Iterator[str]:
    for number, part in enumerate(content):
        here = f"{place}[{number}]"
        if part.type == "refusal":
            yield given_text(part.refusal, f"{here}.refusal")
        elif part.text is not None or part.type is None or part.type in _TEXTS:
            yield given_text(part.text, f"{here}.text")
        else:
            ignored.add("part", part.type)
            if part.type in _MEDIA:
                yield f"[{part.type}: the model cannot see it]"
