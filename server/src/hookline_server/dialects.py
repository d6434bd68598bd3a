"""The wire formats of responses: OpenAI's and Anthropic's."""

from typing import Protocol

import msgspec
from aiohttp import web

from hookline_server.api_error import ApiError, error_body
from hookline_server.protocol.anthropic_response import (
    AnthropicError,
    AnthropicErrorDetail,
    Ping,
)
from hookline_server.protocol.wire import encode
from hookline_server.sse import DONE, KEEP_ALIVE, event

COMPLETIONS_PATH = "/v1/completions"
MESSAGES_PATH = "/v1/messages"
RESPONSES_PATH = "/v1/responses"
EMBEDDINGS_PATH = "/v1/embeddings"
POOLING_PATH = "/pooling"

COUNTED_PATHS = frozenset(
    {
        COMPLETIONS_PATH,
        "/v1/chat/completions",
        RESPONSES_PATH,
        MESSAGES_PATH,
        EMBEDDINGS_PATH,
        POOLING_PATH,
        "/invocations",
    }
)
"""Paths whose requests the loggers count, of a server and of a gateway."""

ANTHROPIC_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}
"""Types of errors by status; others are `invalid_request_error` or `api_error`."""


class Dialect(Protocol):
    """The format of errors and events.

    Attributes:
        done: What ends a stream.
        id_header: Name of a further header with the request's id, or empty.
        keep_alive: What is sent in a stream that waits, and means nothing.
    """

    done: bytes
    id_header: str
    keep_alive: bytes

    def error(self, error: ApiError, request_id: str) -> bytes:
        """Returns the body of an error response."""
        ...

    def event(self, message: msgspec.Struct) -> bytes:
        """Returns an event of a stream."""
        ...

    def error_event(self, error: ApiError, request_id: str) -> bytes:
        """Returns the event of an error in a stream."""
        ...


class OpenAi:
    """OpenAI's format, and that of all endpoints that belong to neither API."""

    done = DONE
    id_header = ""
    keep_alive = KEEP_ALIVE

    def error(self, error: ApiError, request_id: str) -> bytes:  # noqa: ARG002
        return error_body(error)

    def event(self, message: msgspec.Struct) -> bytes:
        return event(encode(message))

    def error_event(self, error: ApiError, request_id: str) -> bytes:  # noqa: ARG002
        return event(error_body(error))


class Responses(OpenAi):
    """The format of `/v1/responses`, whose events have names and no end mark."""

    done = b""

    def event(self, message: msgspec.Struct) -> bytes:
        return _named_event(message)


class Anthropic:
    """Anthropic's format, in which events also have names."""

    done = b""
    id_header = "request-id"
    keep_alive = b"event: ping\n" + event(encode(Ping()))

    def error(self, error: ApiError, request_id: str) -> bytes:
        return encode(_error(error, request_id))

    def event(self, message: msgspec.Struct) -> bytes:
        return _named_event(message)

    def error_event(self, error: ApiError, request_id: str) -> bytes:
        return self.event(_error(error, request_id))


OPENAI: Dialect = OpenAi()
RESPONSES: Dialect = Responses()
ANTHROPIC: Dialect = Anthropic()


def dialect_of(request: web.BaseRequest) -> Dialect:
    """Returns the format of a request's response, according to its path."""
    path = request.path
    if path.startswith(MESSAGES_PATH) and is_anthropic(path):
        return ANTHROPIC
    return RESPONSES if path == RESPONSES_PATH else OPENAI


def is_anthropic(path: str) -> bool:
    """Whether a path belongs to Anthropic's API."""
    return path == MESSAGES_PATH or path.startswith(f"{MESSAGES_PATH}/")


def _named_event(message: msgspec.Struct) -> bytes:
    """Returns an event with a name, the type of its message."""
    name = message.__struct_config__.tag
    return f"event: {name}\n".encode() + event(encode(message))


def _error(error: ApiError, request_id: str) -> AnthropicError:
    fallback = "invalid_request_error" if error.status < 500 else "api_error"
    kind = ANTHROPIC_TYPES.get(error.status, fallback)
    return AnthropicError(AnthropicErrorDetail(kind, str(error)), request_id)
