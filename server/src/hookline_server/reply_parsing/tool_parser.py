"""The interface of tool parsers, and the context that they get."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from hookline_server.reply_parsing.parts import ToolPart


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolParserContext:
    """What a parser of one reply may know.

    Attributes:
        tools: JSON schema of each function's arguments, by the function's name;
            read-only.
        reasoning_ends: Texts that end the reasoning, after which a reply begins anew:
            where calls need no tag at its start, they need none there.
        past_calls: Number of calls in the conversation before the reply.
        tokenizer: The configuration of the model's tokenizer, as JSON has it; None
            before the model is known.
    """

    tools: Mapping[str, Mapping[str, object]]
    reasoning_ends: Sequence[str] = ()
    past_calls: int = 0
    tokenizer: Mapping[str, object] | None = None


@runtime_checkable
class ToolParser(Protocol):
    """Finds calls of functions in the text of one reply.

    It runs before the parser of reasoning, which gets its content: a call ends the
    reasoning. What it yields as arguments the server makes JSON of. It may have the
    attribute `control_tokens`, texts that the server leaves out wherever they stray,
    and yield `Repair` for a slip that it has mended, which is counted.

    The joined parts do not depend on how the text is cut into pieces.
    The methods are called on the server's event loop, for each piece of text of each
    request: they must not block, and their time must be linear in the text.
    """

    @property
    def needs_special_tokens(self) -> bool:
        """Whether the text must contain special tokens, which are left out otherwise.

        It is read once, when the server starts.
        """
        ...

    def push(self, text: str) -> Sequence[ToolPart]:
        """Takes the next piece of the text.

        Returns:
            The parts that are certain so far. Text that may become a marker is held
            back.
        """
        ...

    def finish(self) -> Sequence[ToolPart]:
        """Called once, after the last piece; returns the remaining parts."""
        ...


@runtime_checkable
class CutParser(Protocol):
    """The additional interface of a parser that knows what a cut reply may end with.

    Without it, `finish` is called.
    """

    def cut(self) -> Sequence[ToolPart]:
        """Called instead of `finish` where a reply has reached its greatest length.

        What it says is the start of what a longer reply would have said: the start of a
        tag is left out, and so is a call whose name is not whole, with a `Repair`. A
        call whose name is whole is one, with the arguments so far.
        """
        ...


@runtime_checkable
class NamesCalls(Protocol):
    """The additional interface of a parser whose chat templates want ids of a form.

    Calls that the server forces get such ids, whatever the model has written.
    """

    def call_id(self, name: str, index: int) -> str:
        """Returns an id of the reply's call number `index`, from 0, of a function."""
        ...


@runtime_checkable
class StrictToolParser(Protocol):
    """The additional interface of a parser whose calls can be made to follow schemas.

    Without it, `strict` has no effect where the model chooses whether to call.
    """

    def structural_tag(self, strict: Collection[str]) -> Mapping[str, object] | None:
        """Returns the structural tag that replies must match.

        Text before a call must stay unconstrained. It is called before the reply
        begins, and the tag is compiled once for all requests with the same functions.

        Args:
            strict: Names of the functions whose arguments must follow their schemas;
                those of others are any object.

        Returns:
            The tag, as structured outputs take it; None if the format allows none.
        """
        ...
