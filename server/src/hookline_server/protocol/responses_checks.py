"""Checks of requests of `/v1/responses`."""

from hookline.exceptions import RequestError
from hookline.request_limits import LOGPROBS, METADATA, METADATA_KEY, METADATA_VALUE
from hookline_server.protocol.generation import check_generation, refuse
from hookline_server.protocol.responses_request import (
    FORMATS,
    TRUNCATIONS,
    ResponsesRequest,
    TextFormat,
    generation_request,
)

_UNSUPPORTED = {
    "background": "background mode",
    "conversation": "a stored conversation",
    "previous_input_messages": "messages of gpt-oss",
    "previous_response": "a whole response as history",
    "prompt": "a stored prompt",
}
"""Refused fields, and the features that they ask for."""


def check(request: ResponsesRequest) -> None:
    """Checks the request; raises `RequestError` if it is invalid or not supported."""
    refuse(request, _UNSUPPORTED)
    _check_input(request)
    _check_numbers(request)
    _check_stream_options(request)
    check_generation(generation_request(request))
    _check_truncation(request)
    _check_metadata(request.metadata or {})
    if request.format is not None:
        _check_format(request.format)


def _check_input(request: ResponsesRequest) -> None:
    if request.previous_response_id is not None:
        return
    if request.input is None:
        raise RequestError("input is missing", param="input")
    if request.input == []:
        raise RequestError("input must not be empty", param="input")


def _check_numbers(request: ResponsesRequest) -> None:
    leasts = {"max_output_tokens": 1, "max_tool_calls": 1, "top_logprobs": 0}
    for name, least in leasts.items():
        value = getattr(request, name)
        if value is not None and value < least:
            raise RequestError(f"{name} must be at least {least}", param=name)
    LOGPROBS.check(request.top_logprobs or 0, param="top_logprobs")


def _check_stream_options(request: ResponsesRequest) -> None:
    options, field = request.stream_options, "stream_options"
    if options is None:
        return
    if not request.stream:
        raise RequestError(f"{field} requires stream to be true", param=field)
    if options.include_obfuscation:
        field += ".include_obfuscation"
        raise RequestError(f"{field}: obfuscation is not supported", param=field)


def _check_truncation(request: ResponsesRequest) -> None:
    word = request.truncation
    if word is not None and word not in TRUNCATIONS:
        raise RequestError(
            f"truncation must be one of {', '.join(TRUNCATIONS)}, not {word[:64]!r}",
            param="truncation",
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
