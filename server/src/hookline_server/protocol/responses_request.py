"""Requests of `/v1/responses`."""

from typing import Annotated

import msgspec

from hookline.exceptions import RequestError
from hookline.request_limits import (
    LOGPROBS,
    MESSAGES,
    METADATA,
    METADATA_KEY,
    METADATA_VALUE,
    TOOLS,
)
from hookline_server.protocol.extra_args import Argument
from hookline_server.protocol.generation import GenerationRequest, check_delivery
from hookline_server.protocol.parameter_types import (
    CacheSalt,
    LogitBias,
    MinP,
    Never,
    NotNegative,
    Penalty,
    RepetitionPenalty,
    Stop,
    StopTokenIds,
    Temperature,
    TokenBudget,
    TopK,
    TopP,
)
from hookline_server.protocol.prompt_options import AS_MANY_AS_FIT
from hookline_server.protocol.responses_items import InputItem
from hookline_server.protocol.responses_tools import (
    ResponsesChoice,
    ResponsesTool,
)
from hookline_server.protocol.schema_notes import Refused, bounds, held
from hookline_server.protocol.structured_outputs import (
    JsonSchema,
    ResponseFormat,
    StructuredOutputs,
)
from hookline_server.protocol.template_variables import REASONING_EFFORTS
from hookline_server.protocol.tool_use import CHOICE_WORDS
from hookline_server.protocol.unsupported import refuse
from hookline_server.protocol.wire import Int64, Name

LOGPROBS_INCLUDED = "message.output_text.logprobs"

INCLUDABLE = (
    LOGPROBS_INCLUDED,
    "reasoning.encrypted_content",
    "message.input_image.image_url",
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
)
"""Values of `include`; all but the first concern what responses never have here."""

FORMATS = ("text", "json_object", "json_schema")
"""Types of `text.format`."""

VERBOSITIES = ("low", "medium", "high")
SUMMARIES = ("auto", "concise", "detailed")
TRUNCATIONS = ("auto", "disabled")

_UNSUPPORTED = {
    "background": "background mode",
    "conversation": "a stored conversation",
    "previous_input_messages": "messages of gpt-oss",
    "previous_response": "a whole response as history",
    "prompt": "a stored prompt",
}
"""Fields that are refused, and what they ask for."""

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
    """Options of the text; the verbosity is only repeated."""

    format: TextFormat | None = None
    verbosity: Annotated[Name, bounds(enum=VERBOSITIES)] | None = None


class ReasoningOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of reasoning, which is told in full: summaries are only repeated."""

    effort: Annotated[Name, bounds(enum=REASONING_EFFORTS)] | None = None
    summary: Annotated[Name, bounds(enum=SUMMARIES)] | None = None
    generate_summary: Annotated[Name, bounds(enum=SUMMARIES)] | None = None


class ResponsesStreamOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a stream."""

    include_obfuscation: Never | None = None


class ResponsesRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request for a response; null means a field's default.

    Fields from `min_p` on are extensions.
    """

    model: str | None = None
    input: str | Annotated[list[InputItem], bounds(maxItems=MESSAGES.most)] | None = (
        None
    )
    instructions: str | None = None
    previous_response_id: Name | None = None
    store: bool | None = None
    stream: bool | None = None
    stream_options: ResponsesStreamOptions | None = None
    max_output_tokens: Annotated[Int64, bounds(minimum=1)] | None = None
    temperature: Temperature | None = None
    top_p: TopP | None = None
    top_logprobs: Annotated[Int64, bounds(minimum=0, maximum=LOGPROBS.most)] | None = (
        None
    )
    include: list[Annotated[Name, bounds(enum=INCLUDABLE)]] | None = None
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
    min_p: MinP | None = None
    top_k: TopK | None = None
    stop: Stop | None = None
    stop_token_ids: StopTokenIds | None = None
    min_tokens: NotNegative | None = None
    ignore_eos: bool | None = None
    include_stop_str_in_output: bool | None = None
    skip_special_tokens: bool | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    repetition_penalty: RepetitionPenalty | None = None
    logit_bias: LogitBias | None = None
    seed: Int64 | None = None
    structured_outputs: StructuredOutputs | None = None
    priority: Int64 | None = None
    cache_salt: CacheSalt | None = None
    session_id: str | None = None
    chat_template_kwargs: dict[str, object] | None = None
    thinking_token_budget: TokenBudget | None = None
    vllm_xargs: dict[str, Argument] | None = None

    @property
    def is_streamed(self) -> bool:
        return bool(self.stream)

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
    def reasoning_effort(self) -> str | None:
        return None if self.reasoning is None else self.reasoning.effort


_SHARED = frozenset(ResponsesRequest.__struct_fields__) & frozenset(
    GenerationRequest.__struct_fields__
) - {"stream_options"}
"""Fields that mean the same in both."""


def generation_request(request: ResponsesRequest) -> GenerationRequest:
    """Returns what concerns sampling, stopping and delivery."""
    fields = {name: getattr(request, name) for name in _SHARED}
    return GenerationRequest(
        **fields,
        max_tokens=request.max_output_tokens,
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


def check(request: ResponsesRequest) -> None:
    """Checks the request; raises `RequestError` if it is invalid or not supported."""
    refuse(request, _UNSUPPORTED)
    if request.input is None and request.previous_response_id is None:
        raise RequestError("input is missing", param="input")
    if request.input == [] and request.previous_response_id is None:
        raise RequestError("input must not be empty", param="input")
    for name in ("max_output_tokens", "max_tool_calls"):
        value = getattr(request, name)
        if value is not None and value < 1:
            raise RequestError(f"{name} must be at least 1", param=name)
    if request.top_logprobs is not None:
        if request.top_logprobs < 0:
            raise RequestError("top_logprobs must be at least 0", param="top_logprobs")
        LOGPROBS.check(request.top_logprobs, param="top_logprobs")
    _check_stream_options(request)
    check_delivery(generation_request(request))
    _check_words(request)
    _check_metadata(request.metadata or {})
    if request.format is not None:
        _check_format(request.format)


def _check_stream_options(request: ResponsesRequest) -> None:
    options, field = request.stream_options, "stream_options"
    if options is None:
        return
    if not request.is_streamed:
        raise RequestError(f"{field} requires stream to be true", param=field)
    if options.include_obfuscation:
        field += ".include_obfuscation"
        raise RequestError(f"{field}: obfuscation is not supported", param=field)


def _check_words(request: ResponsesRequest) -> None:
    """Checks the fields whose values are words."""
    text, reasoning = request.text, request.reasoning
    given = [
        ("truncation", request.truncation, TRUNCATIONS),
        ("text.verbosity", text and text.verbosity, VERBOSITIES),
        ("reasoning.summary", reasoning and reasoning.summary, SUMMARIES),
        (
            "reasoning.generate_summary",
            reasoning and reasoning.generate_summary,
            SUMMARIES,
        ),
        *(
            (f"include[{index}]", each, INCLUDABLE)
            for index, each in enumerate(request.include or ())
        ),
    ]
    for field, word, words in given:
        if isinstance(word, str) and word not in words:
            raise RequestError(
                f"{field} must be one of {', '.join(words)}, not {word[:64]!r}",
                param=field,
            )


def _check_metadata(metadata: dict[str, str]) -> None:
    METADATA.check(len(metadata))
    METADATA_KEY.check(max(map(len, metadata), default=0))
    METADATA_VALUE.check(max(map(len, metadata.values()), default=0))


def _check_format(given: TextFormat) -> None:
    if given.type not in FORMATS:
        raise RequestError(
            f"text.format.type must be one of {', '.join(FORMATS)}, not "
            f"{given.type[:64]!r}",
            param="text.format.type",
        )
    if given.type == "json_schema" and given.schema is None:
        field = "text.format.schema"
        raise RequestError(f"{field} is missing", param=field)
