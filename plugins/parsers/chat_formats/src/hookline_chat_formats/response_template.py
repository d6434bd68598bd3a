"""Reading replies by the response template of a model's tokenizer (transformers).

The template says what opens and closes each field of a message, and what a call's text
means. `transformers` understands the text of calls; here is found where they are.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import regex

FIELD_OF_CALLS = "tool_calls"
FIELD_OF_CONTENT = "content"
FIELDS_OF_REASONING = ("thinking", "reasoning_content", "reasoning")

_MOST_SECONDS = 2.0
"""Time for one search of a pattern, which the model's maker has written."""
_NEVER = "\N{NULL}"
"""An anchor that no text has."""


class Anchor:
    """What opens or closes a field: one of several texts, or a pattern."""

    def __init__(self, texts: Sequence[str] = (), pattern: str | None = None) -> None:
        """Compiles it.

        Raises:
            ValueError: It is no pattern, or fits anywhere.
        """
        self.texts = tuple(sorted(texts, key=len, reverse=True))
        self._may_grow = pattern is not None or any(
            one != other and one.startswith(other) for one in texts for other in texts
        )
        if pattern is None:
            pattern = "|".join(map(regex.escape, self.texts))
        try:
            self._pattern = regex.compile(pattern, regex.DOTALL)
        except regex.error as error:
            raise ValueError(f"{pattern!r} is no pattern: {error}") from error
        if self._pattern.fullmatch(""):
            raise ValueError(f"{pattern!r} fits anywhere")

    def find(
        self, text: str, start: int, *, is_last: bool
    ) -> tuple[tuple[int, int] | None, int]:
        """Looks for it from a position on.

        Args:
            text: The text.
            start: The position.
            is_last: Whether no text follows.

        Returns:
            Where it begins and ends, or None; and before where it certainly is not.
        """
        found = self._pattern.search(
            text, start, partial=not is_last, timeout=_MOST_SECONDS
        )
        if found is None:
            return None, len(text)
        is_at_end = found.end() == len(text) and self._may_grow
        if found.partial or (is_at_end and not is_last):
            return None, found.start()
        return found.span(), found.start()

    def last_end(self, text: str) -> int | None:
        """Returns the end of the last place where it is; None if it is nowhere."""
        ends = [found.end() for found in self._pattern.finditer(text)]
        return ends[-1] if ends else None


class Field:
    """A field of a response template.

    Attributes:
        opens: What opens it; None if it needs no opening.
        closes: What closes it; None if nothing does.
    """

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.opens = _anchor(given, "open")
        self.closes = _anchor(given, "close")
        inner = {
            key: value for key, value in given.items() if not key.startswith("close")
        }
        self._template = {
            "start_anchor": _NEVER,
            "fields": {FIELD_OF_CALLS: {**inner, "repeats": True, "optional": True}},
        }

    def calls(self, text: str) -> list[tuple[str, object]]:
        """Returns names and arguments of the calls in the field's text.

        Args:
            text: The text, with what opens the field and without what closes it.

        Returns:
            The calls; none if the text says anything else.
        """
        from transformers.utils.chat_parsing import (  # noqa: PLC0415 - torch
            parse_response,
        )

        try:
            message = parse_response(text, self._template, prefix="")
            return list(_calls(message.get(FIELD_OF_CALLS)))
        except (ValueError, KeyError, TypeError, RecursionError):
            return []


class ResponseTemplate:
    """A response template.

    Attributes:
        fields: Its fields by name.
    """

    def __init__(self, given: Mapping[str, Any]) -> None:
        """Reads it.

        Raises:
            ValueError: `transformers` does not accept it.
        """
        from transformers.utils.chat_parsing import (  # noqa: PLC0415 - torch
            ResponseParser,
        )

        ResponseParser(dict(given), prefix="")
        self.fields = {name: Field(each) for name, each in given["fields"].items()}
        self._start = _anchor(given, "start_anchor")

    def field(self, *names: str) -> Field:
        """Returns the first of these fields; an opening must be known.

        Raises:
            ValueError: There is none.
        """
        for name in names:
            field = self.fields.get(name)
            if field is not None and field.opens is not None:
                return field
        raise ValueError(f"the tokenizer's response_template opens no {names[0]}")

    def begun(self, prompt_end: str) -> str:
        """Returns what a prompt already has of the reply."""
        end = None if self._start is None else self._start.last_end(prompt_end)
        return "" if end is None else prompt_end[end:]


def template_of(given: object) -> ResponseTemplate:
    """Returns a template as JSON has it, read once for all replies.

    Raises:
        ValueError: It is none.
    """
    if not isinstance(given, Mapping):
        raise TypeError("the tokenizer's response_template is no object")
    return _read(json.dumps(given, sort_keys=True))


@lru_cache(maxsize=4)
def _read(given: str) -> ResponseTemplate:
    return ResponseTemplate(json.loads(given))


def _anchor(given: Mapping[str, Any], name: str) -> Anchor | None:
    if (pattern := given.get(f"{name}_pattern")) is not None:
        return Anchor(pattern=pattern)
    texts = given.get(name)
    if texts is None:
        return None
    return Anchor([texts] if isinstance(texts, str) else texts)


def _calls(found: object) -> Iterator[tuple[str, object]]:
    """Yields the calls of what a template makes of a text; refuses anything else."""
    if isinstance(found, list):
        for each in found:
            yield from _calls(each)
        return
    function = found.get("function", found) if isinstance(found, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise TypeError("the template makes no call of it")
    yield function["name"], function.get("arguments")
