"""The interface of reasoning parsers, and the context that they get."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from hookline.structured_outputs import ReasoningSpan
from hookline_server.reply_parsing.parts import ReasoningPart


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningParserContext:
    """What a parser of one reply may know.

    Attributes:
        prompt_end: The last characters of the prompt, with special tokens: a chat
            template may have begun the reasoning, or have ruled it out.
        is_structured: Whether what follows the reasoning is a structured output or a
            forced call, in which nothing is a tag.
        is_chat: Whether a chat template has made the prompt. In other texts, reasoning
            is only where a tag says so.
        tokenizer: See `ToolParserContext`.
    """

    prompt_end: str = ""
    is_structured: bool = False
    is_chat: bool = True
    tokenizer: Mapping[str, object] | None = None


@runtime_checkable
class ReasoningParser(Protocol):
    """Separates reasoning and content in the text of one reply.

    It gets what the tool parser takes for content. The rules of `ToolParser` for
    pieces, time and threads apply here, too, as do `control_tokens`, `Repair` and
    `CutParser`.

    It may have the method `call_begun()`, called where a call begins, which ends the
    reasoning and returns the parts that were held back; and the attribute `ends`, the
    texts that end reasoning (see `ToolParserContext.reasoning_ends`).
    """

    @property
    def needs_special_tokens(self) -> bool:
        """See `ToolParser`."""
        ...

    @property
    def is_reasoning(self) -> bool:
        """Whether the text so far ends within reasoning, whose tokens are counted."""
        ...

    def push(self, text: str) -> Sequence[ReasoningPart]:
        """Takes the next piece of the text; returns the parts known so far."""
        ...

    def finish(self) -> Sequence[ReasoningPart]:
        """Called once, after the last piece; returns the remaining parts."""
        ...


@runtime_checkable
class ReasoningBeforeGrammar(Protocol):
    """The further interface of a reasoning parser before structured outputs.

    Without it, requests for structured outputs get no reasoning.
    """

    @property
    def reasoning_span(self) -> ReasoningSpan | None:
        """The reasoning before a structured output; None if the prompt rules it out.

        It is read before the reply begins.
        """
        ...
