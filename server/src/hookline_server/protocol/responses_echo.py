"""What a response repeats of its request, with the defaults that were used."""

from collections.abc import Sequence

from hookline.sampling_params import SamplingParams
from hookline_server.protocol.responses_object import (
    EchoedReasoning,
    EchoedText,
    EchoedTool,
    ResponseObject,
)
from hookline_server.protocol.responses_request import (
    ReasoningOptions,
    ResponsesRequest,
    TextFormat,
)
from hookline_server.protocol.tools import Tool

PLAIN_TEXT = TextFormat(type="text")


def begun_response(
    request: ResponsesRequest,
    params: SamplingParams,
    *,
    tools: Sequence[Tool],
    response_id: str,
    created_at: int,
    model: str,
    is_kept: bool,
) -> ResponseObject:
    """Returns the response to a request, without any output.

    Args:
        request: The request.
        params: Its sampling parameters.
        tools: Its tools.
        response_id: The response's id.
        created_at: When it begins, in seconds since 1970.
        model: The model's name.
        is_kept: Whether the server keeps it.
    """
    reasoning = request.reasoning or ReasoningOptions()
    verbosity = None if request.text is None else request.text.verbosity
    return ResponseObject(
        id=response_id,
        created_at=created_at,
        status="in_progress",
        model=model,
        instructions=request.instructions,
        previous_response_id=request.previous_response_id,
        store=is_kept,
        max_output_tokens=request.max_output_tokens,
        max_tool_calls=request.max_tool_calls,
        parallel_tool_calls=request.parallel_tool_calls is not False,
        tools=[_echoed(tool) for tool in tools],
        tool_choice=request.tool_choice or "auto",
        temperature=params.temperature,
        top_p=params.top_p,
        top_logprobs=request.top_logprobs or 0,
        presence_penalty=params.presence_penalty,
        frequency_penalty=params.frequency_penalty,
        text=EchoedText(format=request.format or PLAIN_TEXT, verbosity=verbosity),
        reasoning=EchoedReasoning(
            effort=reasoning.effort,
            summary=reasoning.summary or reasoning.generate_summary,
        ),
        truncation=request.truncation or "disabled",
        metadata=request.metadata or {},
        user=request.user,
        safety_identifier=request.safety_identifier,
        prompt_cache_key=request.prompt_cache_key,
    )


def _echoed(tool: Tool) -> EchoedTool:
    return EchoedTool(
        name=tool.name,
        description=tool.description or None,
        parameters=tool.parameters,
        strict=tool.strict,
    )
