"""Requests of `/v1/responses`."""

from typing import Annotated

import msgspec

from hookline.request_limits import LOGPROBS, MESSAGES, TOOLS
from hookline_server.protocol.generation import GenerationRequest
from hookline_server.protocol.parameter_types import AS_MANY_AS_FIT, Never
from hookline_server.protocol.responses_choice import ResponsesChoice
from hookline_server.protocol.responses_items import InputItem
from hookline_server.protocol.responses_tools import ResponsesTool
from hookline_server.protocol.sampled_request import SampledRequest
from hookline_server.protocol.schema_notes import Refused, bounds, held
from hookline_server.protocol.structured_outputs import (
    JsonSchema,
    ResponseFormat,
    StructuredOutputs,
)
from hookline_server.protocol.template_variables import REASONING_EFFORTS
from hookline_server.protocol.tool_use import CHOICE_WORDS
from hookline_server.protocol.wire import Int64, Name

LOGPROBS_INCLUDED = "message.output_text.logprobs"
SEALED_INCLUDED = "reasoning.encrypted_content"

INCLUDABLE = (
    LOGPROBS_INCLUDED,
    SEALED_INCLUDED,
    "message.input_image.image_url",
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
)
"""Known values of `include`; the rest concern items that never occur here."""

FORMATS = ("text", "json_object", "json_schema")
"""Types of `text.format`."""

TRUNCATIONS = ("auto", "disabled")

CHAT_NAMES = {
    "prompt": "input",
    "messages": "input",
    "max_tokens": "max_output_tokens",
    "logprobs": "top_logprobs",
    "reasoning_effort": "reasoning.effort",
}
"""Names of fields in errors → names of the same fields here."""


class TextFormat(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the text has to match."""

    type: Annotated[Name, bounds(enum=FORMATS)]
    name: str | None = None
    schema: dict[str, object] | None = None
    description: str | None = None
    strict: bool | None = None


class TextOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the text; the verbosity has no effect and is only repeated."""

    format: TextFormat | None = None
    verbosity: Name | None = None


class ReasoningOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of reasoning; it is shown in full, so summaries have no effect."""

    effort: Annotated[Name, bounds(enum=REASONING_EFFORTS)] | None = None
    summary: Name | None = None
    generate_summary: Name | None = None


class ResponsesStreamOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a stream."""

    include_obfuscation: Never | None = None


class ResponsesRequest(SampledRequest, frozen=True, kw_only=True):
    """A request for a response; null means a field's default.

    The last two fields are extensions, as are most of those for sampling.
    """

    input: (
        str
        | Annotated[
            list[Annotated[dict[str, object], held(InputItem)]],
            bounds(maxItems=MESSAGES.most),
        ]
        | None
    ) = None
    instructions: str | None = None
    previous_response_id: Name | None = None
    store: bool | None = None
    stream_options: ResponsesStreamOptions | None = None
    max_output_tokens: Annotated[Int64, bounds(minimum=1)] | None = None
    top_logprobs: Annotated[Int64, bounds(minimum=0, maximum=LOGPROBS.most)] | None = (
        None
    )
    include: list[Name] | None = None
    text: TextOptions | None = None
    reasoning: ReasoningOptions | None = None
    truncation: Annotated[Name, bounds(enum=TRUNCATIONS)] | None = None
    tools: (
        Annotated[
            list[Annotated[object, held(ResponsesTool)]], bounds(maxItems=TOOLS.most)
        ]
        | None
    ) = None
    tool_choice: Annotated[object, held(ResponsesChoice, words=CHOICE_WORDS)] = None
    parallel_tool_calls: bool | None = None
    max_tool_calls: Annotated[Int64, bounds(minimum=1)] | None = None
    metadata: dict[str, str] | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    service_tier: str | None = None
    background: Never | None = None
    conversation: Refused = None
    prompt: Refused = None
    previous_response: Refused = None
    previous_input_messages: Refused = None
    structured_outputs: StructuredOutputs | None = None
    chat_template_kwargs: dict[str, object] | None = None

    @property
    def likeliest_tokens(self) -> int | None:
        """Number of top log-probabilities per token; None disables them."""
        if LOGPROBS_INCLUDED not in (self.include or ()):
            return None
        return self.top_logprobs or 0

    @property
    def format(self) -> TextFormat | None:
        """What the text has to match; None if it is free."""
        return None if self.text is None else self.text.format

    @property
    def documents(self) -> None:
        """A variable of chat templates that this API does not set."""

    @property
    def kv_transfer_params(self) -> None:
        """Only completions and chats carry them."""

    @property
    def reasoning_effort(self) -> str | None:
        return None if self.reasoning is None else self.reasoning.effort


def generation_request(request: ResponsesRequest) -> GenerationRequest:
    """Returns the part of the request for sampling, stopping and delivery."""
    fields = {name: getattr(request, name) for name in SampledRequest.__struct_fields__}
    return GenerationRequest(
        **fields,
        max_tokens=request.max_output_tokens,
        structured_outputs=request.structured_outputs,
        response_format=_response_format(request.format),
        truncate_prompt_tokens=(
            AS_MANY_AS_FIT if request.truncation == "auto" else None
        ),
    )


def _response_format(given: TextFormat | None) -> ResponseFormat | None:
    if given is None:
        return None
    return ResponseFormat(
        type=given.type,
        json_schema=JsonSchema(name=given.name, schema=given.schema),
    )
