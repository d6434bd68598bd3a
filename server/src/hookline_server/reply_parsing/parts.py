"""The parts of a reply, in the order in which a model writes them."""

from dataclasses import dataclass


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
        text: The pieces, joined, are the JSON of an object, unless the model wrote
            something else or was cut short.
    """

    text: str


ReasoningPart = Reasoning | Content
ToolPart = Content | CallBegun | CallArguments
Part = Content | Reasoning | CallBegun | CallArguments
