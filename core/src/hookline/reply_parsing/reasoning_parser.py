"""The interface of reasoning parsers, and the context that they get."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from hookline.reply_parsing.parts import ReasoningPart
from hookline.structured_outputs import ReasoningSpan


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningParserContext:
    """What a parser of one reply may know.

    Attributes:
        prompt_end: The last characters of the prompt, with special tokens: a chat
            template may have begun the reasoning, or have ruled it out.
        may_call: Whether calls are looked for in the content, so that one may end the
            reasoning.
    """

    prompt_end: str = ""
    may_call: bool = True


@runtime_checkable
class ReasoningParser(Protocol):
    """Separates reasoning and content in the text of one reply.

    It comes before the parser of tool calls, which gets the content. What `ToolParser`
    says of pieces, time and threads holds here, too.
    """

    @property
    def needs_special_tokens(self) -> bool:
        """See `ToolParser`."""
        ...

    @property
    def is_reasoning(self) -> bool:
        """Whether the text so far ends within reasoning; tokens are counted by it."""
        ...

    def push(self, text: str) -> Sequence[ReasoningPart]:
        """Takes the next piece of the text; returns what is certain by now."""
        ...

    def finish(self) -> Sequence[ReasoningPart]:
        """Is called once, after the last piece; returns the rest."""
        ...


@runtime_checkable
class ReasoningBeforeGrammar(Protocol):
    """What a parser of reasoning implements, too, if structured outputs follow it.

    Without it, a structured output leaves no room for reasoning.
    """

    @property
    def reasoning_span(self) -> ReasoningSpan | None:
        """What precedes a structured output; None if the prompt rules reasoning out.

        It is read before the reply begins.
        """
        ...
