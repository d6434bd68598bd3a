"""The fields of its request that a response repeats, with the defaults in use."""

from collections.abc import Sequence

from hookline.sampling_params import SamplingParams
from hookline_server.protocol.responses_object import (
    EchoedReasoning,
    EchoedText,
    ResponseObject,
)
from hookline_server.protocol.responses_request import (
    ReasoningOptions,
    ResponsesRequest,
    TextFormat,
    TextOptions,
)
from hookline_server.protocol.responses_tools import Echoed

PLAIN_TEXT = TextFormat(type="text")

_AS_GIVEN = (
    "instructions",
    "previous_response_id",
    "max_output_tokens",
    "max_tool_calls",
    "user",
    "safety_identifier",
    "prompt_cache_key",
)
"""Fields that are repeated as they are."""

_AS_USED = ("temperature", "top_p", "presence_penalty", "frequency_penalty")
"""Fields that are repeated with their defaults."""


def begun_response(
    request: ResponsesRequest,
    params: SamplingParams,
    *,
    tools: Sequence[Echoed],
    response_id: str,
    created_at: int,
    model: str,
    is_kept: bool,
) -> ResponseObject:
    """Returns the response to a request, without any output.

    Args:
        request: The request.
        params: Its sampling parameters.
        tools: Its tools, as the response repeats them.
        response_id: The response's id.
        created_at: When it begins, in seconds since 1970.
        model: The model's name.
        is_kept: Whether the server keeps it.
    """
    given = {name: getattr(request, name) for name in _AS_GIVEN}
    used = {name: getattr(params, name) for name in _AS_USED}
    return ResponseObject(
        **given,
        **used,
        id=response_id,
        created_at=created_at,
        status="in_progress",
        model=model,
        store=is_kept,
        parallel_tool_calls=request.parallel_tool_calls is not False,
        tools=[*tools],
        tool_choice=request.tool_choice or "auto",
        top_logprobs=request.top_logprobs or 0,
        text=_echoed_text(request.text or TextOptions()),
        reasoning=_echoed_reasoning(request.reasoning or ReasoningOptions()),
        truncation=request.truncation or "disabled",
        metadata=request.metadata or {},
    )


def _echoed_text(given: TextOptions) -> EchoedText:
    return EchoedText(format=given.format or PLAIN_TEXT, verbosity=given.verbosity)


def _echoed_reasoning(given: ReasoningOptions) -> EchoedReasoning:
    summary = given.summary or given.generate_summary
    return EchoedReasoning(effort=given.effort, summary=summary)
