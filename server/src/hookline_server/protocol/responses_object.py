"""Responses of `/v1/responses`: the object, and the items of its output."""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Raw, UnsetType, field

from hookline_server.protocol.chat import TokenLogprob
from hookline_server.protocol.responses_request import TextFormat
from hookline_server.protocol.responses_tools import Echoed
from hookline_server.protocol.schema_notes import REFERENCE, held
from hookline_server.protocol.usage import Usage

AnyJson = object
"""The builtin type, where a field hides its name."""

NO_LOGPROBS = Raw(b"[]")

ItemStatus = Literal["in_progress", "completed", "incomplete"]
ResponseStatus = Literal["in_progress", "completed", "incomplete", "failed"]
ErrorCode = Literal["server_error", "rate_limit_exceeded", "invalid_prompt"]

held(TokenLogprob)
LogprobsJson = Annotated[
    Raw,
    msgspec.Meta(
        extra_json_schema={
            "type": "array",
            "items": {"$ref": REFERENCE.format(name=TokenLogprob.__name__)},
        }
    ),
]
"""Log-probabilities that are already JSON."""


class OutputText(msgspec.Struct, frozen=True, tag="output_text"):
    """Text of a message."""

    text: str
    logprobs: LogprobsJson
    annotations: list[object] = field(default_factory=list)


class ReasoningText(msgspec.Struct, frozen=True, tag="reasoning_text"):
    """Text of reasoning."""

    text: str


class SummaryText(msgspec.Struct, frozen=True, tag="summary_text"):
    """Summary of reasoning; always empty, as reasoning is shown in full."""

    text: str


class OutputMessage(msgspec.Struct, frozen=True, kw_only=True, tag="message"):
    """A message of the model."""

    id: str
    role: Literal["assistant"] = "assistant"
    status: ItemStatus
    content: list[OutputText]


class ReasoningItem(msgspec.Struct, frozen=True, kw_only=True, tag="reasoning"):
    """The model's reasoning."""

    id: str
    status: ItemStatus
    summary: list[SummaryText] = field(default_factory=list)
    content: list[ReasoningText]
    encrypted_content: str | UnsetType = UNSET


class FunctionCall(msgspec.Struct, frozen=True, kw_only=True, tag="function_call"):
    """A call of a function."""

    id: str
    call_id: str
    name: str
    namespace: str | UnsetType = UNSET
    arguments: str
    status: ItemStatus


class CustomToolCall(msgspec.Struct, frozen=True, kw_only=True, tag="custom_tool_call"):
    """A call of a custom tool, whose input is a text."""

    id: str
    call_id: str
    name: str
    namespace: str | UnsetType = UNSET
    input: str
    status: ItemStatus


class ToolSearchCall(msgspec.Struct, frozen=True, kw_only=True, tag="tool_search_call"):
    """A call of the client's search for tools."""

    id: str
    call_id: str
    execution: Literal["client"] = "client"
    arguments: dict[str, object]
    status: ItemStatus


OutputItem = (
    OutputMessage | ReasoningItem | FunctionCall | CustomToolCall | ToolSearchCall
)
ContentPart = OutputText | ReasoningText


class InputTokensDetails(msgspec.Struct, frozen=True):
    """Sources of the input's tokens; writing to the cache costs nothing extra."""

    cached_tokens: int
    cache_write_tokens: int = 0


class OutputTokensDetails(msgspec.Struct, frozen=True):
    """Tokens of the reasoning."""

    reasoning_tokens: int


class ResponseUsage(msgspec.Struct, frozen=True, kw_only=True):
    """Token counts."""

    input_tokens: int
    input_tokens_details: InputTokensDetails
    output_tokens: int
    output_tokens_details: OutputTokensDetails
    total_tokens: int


class IncompleteDetails(msgspec.Struct, frozen=True):
    """Why a response is incomplete."""

    reason: Literal["max_output_tokens"] = "max_output_tokens"


class ResponseError(msgspec.Struct, frozen=True, kw_only=True):
    """Why a response failed."""

    code: ErrorCode
    message: str
    param: str | None = None


class EchoedText(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the text."""

    format: TextFormat
    verbosity: str | None = None


class EchoedReasoning(msgspec.Struct, frozen=True, kw_only=True):
    """The options of reasoning."""

    effort: str | None = None
    summary: str | None = None


class ResponseObject(msgspec.Struct, frozen=True, kw_only=True):
    """A response; in a stream, the first events lack output, usage and end.

    From `instructions` on, the fields repeat the request, with the defaults in use.
    """

    id: str
    object: Literal["response"] = "response"
    created_at: int
    completed_at: int | None = None
    status: ResponseStatus
    model: str
    error: ResponseError | None = None
    incomplete_details: IncompleteDetails | None = None
    output: list[OutputItem] = field(default_factory=list)
    usage: ResponseUsage | None = None
    instructions: str | None
    previous_response_id: str | None
    store: bool
    background: Literal[False] = False
    max_output_tokens: int | None
    max_tool_calls: int | None
    parallel_tool_calls: bool
    tools: list[Echoed]
    tool_choice: AnyJson
    temperature: float
    top_p: float
    top_logprobs: int
    presence_penalty: float
    frequency_penalty: float
    text: EchoedText
    reasoning: EchoedReasoning
    truncation: str
    metadata: dict[str, str]
    user: str | None
    safety_identifier: str | None
    prompt_cache_key: str | None
    service_tier: Literal["default"] = "default"


class DeletedResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to the deletion of a response."""

    id: str
    object: Literal["response"] = "response"
    deleted: Literal[True] = True


class InputTokens(msgspec.Struct, frozen=True, kw_only=True):
    """The response of `/v1/responses/input_tokens`."""

    object: Literal["response.input_tokens"] = "response.input_tokens"
    input_tokens: int


def response_usage(usage: Usage, reasoning_tokens: int) -> ResponseUsage:
    """Returns token counts under the names that they have in responses."""
    return ResponseUsage(
        input_tokens=usage.prompt_tokens,
        input_tokens_details=InputTokensDetails(
            usage.prompt_tokens_details.cached_tokens
        ),
        output_tokens=usage.completion_tokens,
        output_tokens_details=OutputTokensDetails(reasoning_tokens),
        total_tokens=usage.total_tokens,
    )
