"""The events of a streamed response.

The type of each struct, its tag, is also the name of the event.
"""

import msgspec

from hookline_server.protocol.responses_object import (
    ContentPart,
    LogprobsJson,
    OutputItem,
    ResponseObject,
)


class ResponseEvent(msgspec.Struct, frozen=True):
    """An event; their numbers have no gaps."""

    sequence_number: int


class _WholeEvent(ResponseEvent, frozen=True):
    response: ResponseObject


class ResponseCreated(_WholeEvent, frozen=True, tag="response.created"):
    """The first event."""


class ResponseInProgress(_WholeEvent, frozen=True, tag="response.in_progress"):
    """The model has begun to write."""


class ResponseCompleted(_WholeEvent, frozen=True, tag="response.completed"):
    """The last event of a response that is complete."""


class ResponseIncomplete(_WholeEvent, frozen=True, tag="response.incomplete"):
    """The last event of a response that was cut short."""


class ResponseFailed(_WholeEvent, frozen=True, tag="response.failed"):
    """The last event of a response that failed."""


class _ItemEvent(ResponseEvent, frozen=True):
    output_index: int
    item: OutputItem


class OutputItemAdded(_ItemEvent, frozen=True, tag="response.output_item.added"):
    """An item begins, still empty."""


class OutputItemDone(_ItemEvent, frozen=True, tag="response.output_item.done"):
    """An item ends."""


class _InsideEvent(ResponseEvent, frozen=True):
    output_index: int
    item_id: str


class _PartEvent(_InsideEvent, frozen=True):
    content_index: int
    part: ContentPart


class ContentPartAdded(_PartEvent, frozen=True, tag="response.content_part.added"):
    """A part of an item begins, still empty."""


class ContentPartDone(_PartEvent, frozen=True, tag="response.content_part.done"):
    """A part of an item ends."""


class OutputTextDelta(_InsideEvent, frozen=True, tag="response.output_text.delta"):
    """More text."""

    content_index: int
    delta: str
    logprobs: LogprobsJson


class OutputTextDone(_InsideEvent, frozen=True, tag="response.output_text.done"):
    """The whole text."""

    content_index: int
    text: str
    logprobs: LogprobsJson


class ReasoningTextDelta(
    _InsideEvent, frozen=True, tag="response.reasoning_text.delta"
):
    """More reasoning."""

    content_index: int
    delta: str


class ReasoningTextDone(_InsideEvent, frozen=True, tag="response.reasoning_text.done"):
    """The whole reasoning."""

    content_index: int
    text: str


class CallArgumentsDelta(
    _InsideEvent, frozen=True, tag="response.function_call_arguments.delta"
):
    """More of a call's arguments."""

    delta: str


class CallArgumentsDone(
    _InsideEvent, frozen=True, tag="response.function_call_arguments.done"
):
    """The whole arguments of a call."""

    name: str
    arguments: str


class CustomInputDelta(
    _InsideEvent, frozen=True, tag="response.custom_tool_call_input.delta"
):
    """More of a custom tool's input."""

    delta: str


class CustomInputDone(
    _InsideEvent, frozen=True, tag="response.custom_tool_call_input.done"
):
    """The whole input of a custom tool."""

    input: str


RESPONSE_EVENTS = (
    ResponseCreated,
    ResponseInProgress,
    OutputItemAdded,
    ContentPartAdded,
    OutputTextDelta,
    OutputTextDone,
    ReasoningTextDelta,
    ReasoningTextDone,
    CallArgumentsDelta,
    CallArgumentsDone,
    CustomInputDelta,
    CustomInputDone,
    ContentPartDone,
    OutputItemDone,
    ResponseCompleted,
    ResponseIncomplete,
    ResponseFailed,
)
"""All events that a stream can have."""
