"""Structured outputs: what the text of a request has to match."""

from collections.abc import Iterable, Mapping
from enum import StrEnum

import msgspec
from msgspec.structs import force_setattr

from hookline.exceptions import RequestError
from hookline.frozen import plain
from hookline.request_limits import (
    GRAMMAR_BYTES,
    GRAMMAR_CHOICES,
    GRAMMAR_DEPTH,
    GRAMMAR_VALUES,
)
from hookline.sections import Section

PARAM = "structured_outputs"

_LONGEST_MARKER = 256
"""Maximum bytes of a text that begins or ends reasoning."""


class GrammarKind(StrEnum):
    """The kinds of grammars."""

    JSON = "json"
    JSON_OBJECT = "json_object"
    REGEX = "regex"
    CHOICE = "choice"
    GRAMMAR = "grammar"
    STRUCTURAL_TAG = "structural_tag"

    @property
    def is_json(self) -> bool:
        """Whether the whole text is JSON."""
        return self in {GrammarKind.JSON, GrammarKind.JSON_OBJECT}


class ReasoningSpan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Reasoning before a structured output: free text between fixed ones.

    Attributes:
        begin: Text with which the model begins it; empty if it has begun.
        is_optional: Whether the model may skip it by not writing `begin`.
        end: Text that ends it.
        lead: Text between the reasoning and the structured output.

    Raises:
        RequestError: A text is malformed or too long, or `end` is missing.
    """

    end: str
    begin: str = ""
    is_optional: bool = False
    lead: str = ""

    def __post_init__(self) -> None:
        for name in ("begin", "end", "lead"):
            text = getattr(self, name)
            if not isinstance(text, str):
                raise _error(f"reasoning.{name} must be a string")
            if len(_utf8(f"reasoning.{name}", text)) > _LONGEST_MARKER:
                raise _error(f"reasoning.{name} exceeds {_LONGEST_MARKER} bytes")
        if not self.end:
            raise _error("reasoning.end must not be empty")


class StructuredOutputsParams(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True
):
    """What the generated text must match: exactly one of the first six fields is set.

    Attributes:
        json: A JSON schema, as text or as an object; kept as text.
        json_object: True for any JSON object.
        regex: A regular expression for the whole text.
        choice: Texts, one of which is generated.
        grammar: A grammar in EBNF (GBNF); it starts at the rule `root`.
        structural_tag: Tags within free text whose contents follow schemas, as the
            backend describes them: JSON as text or as an object; kept as text.
        disable_any_whitespace: Whether JSON has no whitespace but the backend's own.
        disable_additional_properties: Whether objects have only the properties that
            their schemas name, unless these say otherwise.
        whitespace_pattern: Regular expression of the whitespace between JSON's tokens,
            for backends that can choose it.
        reasoning: Reasoning that may precede what must match; None leaves no room for
            it.
        loose: Pointers (RFC 6901) to schemas in `json` or `structural_tag` that may be
            loosened, up to any object, where no backend can follow them.

    Raises:
        RequestError: None or several are set, or one is malformed.
        LimitError: It is too large.
    """

    json: str | Mapping[str, object] | None = None
    json_object: bool | None = None
    regex: str | None = None
    choice: tuple[str, ...] | None = None
    grammar: str | None = None
    structural_tag: str | Mapping[str, object] | None = None
    disable_any_whitespace: bool = False
    disable_additional_properties: bool = False
    whitespace_pattern: str | None = None
    reasoning: ReasoningSpan | None = None
    loose: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.json_object is False:  # as if it were left out
            force_setattr(self, "json_object", None)
        given = [each for each in GrammarKind if getattr(self, each) is not None]
        if len(given) != 1:
            names = ", ".join(GrammarKind)
            found = " and ".join(given) or "none"
            raise _error(f"set exactly one of {names}, not {found}")
        kind = given[0]
        if kind is GrammarKind.CHOICE:
            force_setattr(self, "choice", _choices(self.choice))
        elif kind in {GrammarKind.JSON, GrammarKind.STRUCTURAL_TAG}:
            text = _json_text(kind, getattr(self, kind))
            force_setattr(self, kind, text)
        elif kind is GrammarKind.JSON_OBJECT:
            if self.json_object is not True:
                raise _error("json_object must be true or left out")
        else:
            _check_text(kind, getattr(self, kind))
        if self.whitespace_pattern is not None:
            _check_text("whitespace_pattern", self.whitespace_pattern)
        if not isinstance(self.reasoning, ReasoningSpan | None):
            raise _error("reasoning must be a ReasoningSpan")

    @property
    def kind(self) -> GrammarKind:
        """Which of the fields is set."""
        return next(each for each in GrammarKind if getattr(self, each) is not None)


STRUCTURED_OUTPUTS = Section(PARAM, StructuredOutputsParams)
"""What sampling parameters have of them, perhaps from another process."""


def _choices(given: object) -> tuple[str, ...]:
    if not isinstance(given, Iterable) or isinstance(given, str | Mapping):
        raise _error("choice must be a list of strings")
    found = tuple(given)
    if not found:
        raise _error("choice must not be empty")
    GRAMMAR_CHOICES.check(len(found))
    if not all(isinstance(each, str) and each for each in found):
        raise _error("choice must be a list of strings that are not empty")
    GRAMMAR_BYTES.check(sum(len(_utf8("choice", each)) for each in found))
    return found


def _json_text(name: str, given: object) -> str:
    """Returns a JSON object as text, with bounded size and depth."""
    if isinstance(given, Mapping):
        _check_shape(name, given)  # before it is copied
        try:
            text = msgspec.json.encode(given, enc_hook=plain).decode()
        except (TypeError, ValueError, NotImplementedError) as error:
            raise _error(f"{name} is not JSON: {error}") from error
        GRAMMAR_BYTES.check(len(text.encode()))
        return text
    text = _check_text(name, given)
    try:
        value = msgspec.json.decode(text)
    except RecursionError:
        GRAMMAR_DEPTH.check(GRAMMAR_DEPTH.most + 1)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise _error(f"{name} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise _error(f"{name} must be a JSON object")
    _check_shape(name, value)
    return text


def _check_text(name: str, given: object) -> str:
    if not isinstance(given, str) or not given:
        raise _error(f"{name} must be a string that is not empty")
    GRAMMAR_BYTES.check(len(given))
    GRAMMAR_BYTES.check(len(_utf8(name, given)))
    if "\0" in given:
        raise _error(f"{name} must not contain the character U+0000")
    return given


def _utf8(name: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise _error(f"{name} has characters that are not valid Unicode") from error


def _check_shape(name: str, value: object) -> None:
    """Checks depth and number of values, level by level."""
    level, values = [value], 0
    for depth in range(GRAMMAR_DEPTH.most + 1):
        values += len(level)
        GRAMMAR_VALUES.check(values)
        below: list[object] = []
        for each in level:
            if isinstance(each, Mapping):
                if not all(isinstance(key, str) for key in each):
                    raise _error(f"{name} has keys that are not strings")
                below += each.values()
            elif isinstance(each, list | tuple):
                below += each
            if len(below) > GRAMMAR_VALUES.most:
                GRAMMAR_VALUES.check(values + len(below))
        if not below:
            return
        GRAMMAR_DEPTH.check(depth + 1)
        level = below


def _error(reason: str) -> RequestError:
    return RequestError(f"{PARAM}: {reason}", param=PARAM)
