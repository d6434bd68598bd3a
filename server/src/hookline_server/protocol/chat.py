"""Messages of `/v1/chat/completions`."""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Raw, UnsetType

from hookline.exceptions import RequestError
from hookline.request_limits import DOCUMENTS, LOGPROBS, MESSAGES, TOOLS
from hookline_server.protocol.generation import GenerationRequest, check_generation
from hookline_server.protocol.message import ChatMessage, assistant_text
from hookline_server.protocol.parameter_types import ChatTemplate, TokenBudget
from hookline_server.protocol.prompt_end import check_final_message
from hookline_server.protocol.prompt_logprobs import PromptLogprobsJson
from hookline_server.protocol.request_metrics import ResponseMetrics
from hookline_server.protocol.schema_notes import (
    Refused,
    TokenIdsJson,
    bounds,
    held,
)
from hookline_server.protocol.template_variables import REASONING_EFFORTS
from hookline_server.protocol.tool_use import (
    CHOICE_WORDS,
    LEGACY_WORDS,
    NamedFunction,
    ToolChoice,
)
from hookline_server.protocol.tools import FunctionDefinition, ToolDefinition
from hookline_server.protocol.transfer_params import TransferParams
from hookline_server.protocol.usage import Usage
from hookline_server.protocol.wire import Int64


class ChatRequest(GenerationRequest, frozen=True, kw_only=True):
    """A request; fields of type `Refused` are not supported and refused."""

    messages: Annotated[list[ChatMessage], bounds(minItems=1, maxItems=MESSAGES.most)]
    echo: bool | None = None
    max_completion_tokens: Annotated[Int64, bounds(minimum=1)] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[Int64, bounds(minimum=0, maximum=LOGPROBS.most)] | None = (
        None
    )
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    chat_template: ChatTemplate | None = None
    chat_template_kwargs: dict[str, object] | None = None
    documents: Annotated[list[object], bounds(maxItems=DOCUMENTS.most)] | None = None
    reasoning_effort: Annotated[str, bounds(enum=REASONING_EFFORTS)] | None = None
    include_reasoning: bool | None = None
    enable_thinking: bool | None = None
    think: bool | str | None = None
    thinking: object = None
    reasoning: object = None
    thinking_budget: TokenBudget | None = None
    tools: (
        Annotated[
            list[Annotated[object, held(ToolDefinition)]], bounds(maxItems=TOOLS.most)
        ]
        | None
    ) = None
    tool_choice: Annotated[object, held(ToolChoice, words=CHOICE_WORDS)] = None
    parallel_tool_calls: bool | None = None
    functions: (
        Annotated[
            list[Annotated[object, held(FunctionDefinition)]],
            bounds(maxItems=TOOLS.most),
        ]
        | None
    ) = None
    function_call: Annotated[object, held(NamedFunction, words=LEGACY_WORDS)] = None
    modalities: object = None
    audio: Refused = None

    @property
    def max_tokens_field(self) -> str:
        """Name of the field that sets the maximum output tokens."""
        if self.max_completion_tokens is not None:
            return "max_completion_tokens"
        return "max_tokens"

    @property
    def output_tokens(self) -> int | None:
        """Maximum tokens to generate; None generates up to the context length."""
        if self.max_completion_tokens is not None:
            return self.max_completion_tokens
        return self.max_tokens

    @property
    def echoed_text(self) -> str:
        """Text to put before each reply: that of the assistant's last message."""
        return assistant_text(self.messages[-1]) if self.echo else ""

    @property
    def likeliest_tokens(self) -> int | None:
        """Number of top log-probabilities per token; None disables them."""
        return (self.top_logprobs or 0) if self.logprobs else None


class TopLogprob(msgspec.Struct, frozen=True, gc=False):
    """One of the most likely tokens at a position."""

    token: str
    logprob: float
    bytes: list[int]


class TokenLogprob(msgspec.Struct, frozen=True, gc=False):
    """The generated token at a position."""

    token: str
    logprob: float
    bytes: list[int]
    top_logprobs: list[TopLogprob]


class ChatLogprobs(msgspec.Struct, frozen=True):
    """Log-probabilities of a choice."""

    content: list[TokenLogprob]
    refusal: None = None


class AnswerFunction(msgspec.Struct, frozen=True, kw_only=True):
    """A called function; streamed, the name comes first and then its arguments."""

    name: str | UnsetType = UNSET
    arguments: str


class AnswerCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call; only streamed ones have an index, and only their first parts an id."""

    index: int | UnsetType = UNSET
    id: str | UnsetType = UNSET
    type: str | UnsetType = UNSET
    function: AnswerFunction


class AnswerMessage(msgspec.Struct, frozen=True, kw_only=True):
    """The generated message."""

    content: str | None
    role: str = "assistant"
    refusal: None = None
    tool_calls: list[AnswerCall] | UnsetType = UNSET
    function_call: AnswerFunction | UnsetType = UNSET
    reasoning_content: str | UnsetType = UNSET
    reasoning: str | UnsetType = UNSET


class ChatChoice(msgspec.Struct, frozen=True, kw_only=True):
    """One complete choice."""

    index: int
    message: AnswerMessage
    logprobs: Annotated[Raw, held(ChatLogprobs)] | None = None
    token_ids: TokenIdsJson | UnsetType = UNSET
    finish_reason: str
    stop_reason: str | int | None = None


class ChatCompletion(msgspec.Struct, frozen=True, kw_only=True):
    """The response to a request without streaming."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    system_fingerprint: str | UnsetType = UNSET
    choices: list[ChatChoice]
    usage: Usage
    prompt_logprobs: PromptLogprobsJson | UnsetType = UNSET
    prompt_token_ids: TokenIdsJson | UnsetType = UNSET
    kv_transfer_params: TransferParams = UNSET
    metrics: ResponseMetrics | UnsetType | None = UNSET


class Delta(msgspec.Struct, frozen=True, kw_only=True):
    """The new part of one choice."""

    role: str | UnsetType = UNSET
    content: str | UnsetType = UNSET
    tool_calls: list[AnswerCall] | UnsetType = UNSET
    function_call: AnswerFunction | UnsetType = UNSET
    reasoning_content: str | UnsetType = UNSET
    reasoning: str | UnsetType = UNSET


class ChunkChoice(msgspec.Struct, frozen=True, kw_only=True):
    """One choice in a chunk."""

    index: int
    delta: Delta
    logprobs: ChatLogprobs | None = None
    token_ids: list[int] | UnsetType = UNSET
    finish_reason: str | None = None
    stop_reason: str | int | UnsetType | None = UNSET


class ChatChunk(msgspec.Struct, kw_only=True):
    """One event of a stream."""

    id: str
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    created: int
    model: str
    system_fingerprint: str | UnsetType = UNSET
    choices: list[ChunkChoice]
    usage: Usage | UnsetType | None = UNSET
    prompt_token_ids: TokenIdsJson | UnsetType = UNSET
    kv_transfer_params: TransferParams = UNSET
    metrics: ResponseMetrics | UnsetType | None = UNSET


def check(request: ChatRequest) -> None:
    """Checks the request; raises `RequestError` if it is invalid or not supported."""
    check_generation(request)
    if not request.messages:
        raise RequestError("messages must not be empty", param="messages")
    check_final_message(request, request.messages)
    if request.output_tokens is not None and request.output_tokens < 1:
        field = request.max_tokens_field
        raise RequestError(f"{field} must be at least 1", param=field)
    if request.top_logprobs is not None:
        _check_top_logprobs(request, request.top_logprobs)


def _check_top_logprobs(request: ChatRequest, count: int) -> None:
    if count and not request.logprobs:
        raise RequestError(
            "top_logprobs requires logprobs to be true", param="top_logprobs"
        )
    if count < 0:
        raise RequestError("top_logprobs must be at least 0", param="top_logprobs")
    LOGPROBS.check(count, param="top_logprobs")
