"""Requests of Anthropic's API: `/v1/messages` and `/v1/messages/count_tokens`."""

from typing import Annotated

import msgspec

from hookline.exceptions import RequestError
from hookline.request_limits import MESSAGES, STOP, STOP_LENGTH, TOOLS
from hookline_server.protocol.anthropic_blocks import Block
from hookline_server.protocol.anthropic_conversation import InputMessage
from hookline_server.protocol.generation import GenerationRequest, check_generation
from hookline_server.protocol.parameter_types import (
    CacheSalt,
    StopText,
    Temperature,
    TopK,
    TopP,
)
from hookline_server.protocol.schema_notes import bounds, held
from hookline_server.protocol.structured_outputs import JsonSchema, ResponseFormat
from hookline_server.protocol.template_variables import REASONING_EFFORTS
from hookline_server.protocol.wire import Int64, Name

CHOICES = ("auto", "any", "tool", "none")
"""Types of `tool_choice`."""

THINKING = ("enabled", "disabled", "adaptive")
"""Types of `thinking`; with others the model decides, as with the last one."""

_SWITCHES = ("enabled", "disabled")


class Thinking(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the model reasons before it replies."""

    type: Annotated[Name, bounds(enum=THINKING)]
    budget_tokens: Annotated[Int64, bounds(minimum=1)] | None = None


class OutputFormat(msgspec.Struct, frozen=True, kw_only=True):
    """What the text has to match."""

    type: Annotated[Name, bounds(const="json_schema")]
    schema: dict[str, object] | None = None


class OutputConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the output."""

    effort: Annotated[Name, bounds(enum=REASONING_EFFORTS)] | None = None
    format: OutputFormat | None = None


class AnthropicTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool; those that Anthropic's servers run are left out."""

    type: Name | None = None
    name: str | None = None
    description: str | None = None
    input_schema: dict[str, object] | None = None
    strict: bool | None = None


class AnthropicChoice(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the model must call a tool."""

    type: Annotated[Name, bounds(enum=CHOICES)]
    name: Name | None = None
    disable_parallel_tool_use: bool | None = None


class CountTokensRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a prompt; null means a field's default."""

    model: str | None = None
    messages: Annotated[list[InputMessage], bounds(minItems=1, maxItems=MESSAGES.most)]
    system: str | list[Block] | None = None
    tools: (
        Annotated[
            list[Annotated[object, held(AnthropicTool)]], bounds(maxItems=TOOLS.most)
        ]
        | None
    ) = None
    tool_choice: Annotated[object, held(AnthropicChoice, nullable=True)] = None
    thinking: Thinking | None = None
    output_config: OutputConfig | None = None
    output_format: OutputFormat | None = None

    @property
    def format_field(self) -> str:
        """The field with the output's format; `output_format` is the former name."""
        return "output_config.format" if self._format is not None else "output_format"

    @property
    def format(self) -> OutputFormat | None:
        """What the text has to match; None if it is free."""
        return self._format or self.output_format

    @property
    def _format(self) -> OutputFormat | None:
        return None if self.output_config is None else self.output_config.format

    @property
    def chat_template_kwargs(self) -> dict[str, object] | None:
        """Switches of reasoning, under the names that chat templates use."""
        if self.thinking is None or self.thinking.type not in _SWITCHES:
            return None
        is_on = self.thinking.type == "enabled"
        return {"enable_thinking": is_on, "thinking": is_on}

    @property
    def documents(self) -> None:
        """A variable of chat templates that this API does not set."""

    @property
    def reasoning_effort(self) -> str | None:
        """Another variable: the effort, if templates may know it."""
        effort = None if self.output_config is None else self.output_config.effort
        return effort if effort in REASONING_EFFORTS else None


class MessagesRequest(CountTokensRequest, frozen=True, kw_only=True):
    """A request for the next message; the last three fields are extensions."""

    max_tokens: Annotated[Int64, bounds(minimum=1)]
    stream: bool | None = None
    stop_sequences: Annotated[list[StopText], bounds(maxItems=STOP.most)] | None = None
    temperature: Temperature | None = None
    top_p: TopP | None = None
    top_k: TopK | None = None
    priority: Int64 | None = None
    cache_salt: CacheSalt | None = None
    session_id: str | None = None

    @property
    def kv_transfer_params(self) -> None:
        """Only completions and chats carry them."""


def generation_request(request: MessagesRequest) -> GenerationRequest:
    """Returns the part of the request for sampling, stopping and delivery."""
    thinking = request.thinking
    budget = None
    if thinking is not None and thinking.type == "enabled":
        budget = thinking.budget_tokens
    return GenerationRequest(
        model=request.model,
        max_tokens=request.max_tokens,
        stream=request.stream,
        temperature=request.temperature,
        top_p=request.top_p,
        top_k=request.top_k,
        stop=request.stop_sequences,
        thinking_token_budget=budget,
        priority=request.priority,
        cache_salt=request.cache_salt,
        response_format=_response_format(request),
    )


def _response_format(request: MessagesRequest) -> ResponseFormat | None:
    if (given := request.format) is None:
        return None
    return ResponseFormat(type=given.type, json_schema=JsonSchema(schema=given.schema))


def check_prompt(request: CountTokensRequest) -> None:
    """Checks all but messages and tools; raises `RequestError` if it is invalid."""
    if not request.messages:
        raise RequestError("messages must not be empty", param="messages")
    if request.thinking is not None:
        _check_thinking(request.thinking)
    if request.format is not None:
        _check_format(request.format, request.format_field)


def check(request: MessagesRequest) -> None:
    """Checks the request; raises `RequestError` if it is invalid or not supported."""
    check_prompt(request)
    if request.max_tokens < 1:
        raise RequestError("max_tokens must be at least 1", param="max_tokens")
    field = "stop_sequences"
    stop = request.stop_sequences or ()
    STOP.check(len(stop), param=field)
    STOP_LENGTH.check(max(map(len, stop), default=0), param=field)
    if not all(stop):
        raise RequestError(f"{field} must not hold empty strings", param=field)
    check_generation(generation_request(request))


def _check_format(given: OutputFormat, field: str) -> None:
    if given.type != "json_schema":
        raise RequestError(
            f"{field}.type must be 'json_schema', not {given.type[:64]!r}",
            param=f"{field}.type",
        )
    if given.schema is None:
        raise RequestError(f"{field}.schema is missing", param=f"{field}.schema")


def _check_thinking(thinking: Thinking) -> None:
    field = "thinking.budget_tokens"
    if thinking.budget_tokens is not None and thinking.budget_tokens < 1:
        raise RequestError(f"{field} must be at least 1", param=field)
