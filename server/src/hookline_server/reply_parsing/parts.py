"""The parts of a reply, in the order in which a model writes them."""

from dataclasses import dataclass

from hookline_metrics.front_end_parts import RepairKind


@dataclass(frozen=True, slots=True)
class Content:
    """Text for the user.

    Attributes:
        text: The text; the texts of all such parts, joined, are the content.
    """

    text: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Text of the model's reasoning.

    Attributes:
        text: The text; the texts of all such parts, joined, are the reasoning.
    """

    text: str


@dataclass(frozen=True, slots=True)
class CallBegun:
    """The model calls a function; its arguments follow.

    Attributes:
        name: The function's name.
        id: The call's id, if the format has one; otherwise the server makes one.
    """

    name: str
    id: str | None = None


@dataclass(frozen=True, slots=True)
class CallArguments:
    """A piece of the arguments of the call that began last.

    Attributes:
        text: The pieces, joined, are what the model wrote; the server makes the JSON
            of an object of it.
    """

    text: str


@dataclass(frozen=True, slots=True)
class Repair:
    """Says that a slip of the model was mended, which is counted; no text of the reply.

    Attributes:
        kind: Which slip.
    """

    kind: RepairKind


ReasoningPart = Reasoning | Content | Repair
ToolPart = Content | Reasoning | CallBegun | CallArguments | Repair
Part = Content | Reasoning | CallBegun | CallArguments
"""What a reply consists of for clients."""
