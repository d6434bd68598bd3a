"""OpenAI's error format."""

import msgspec


class ErrorDetail(msgspec.Struct, frozen=True):
    """Message, type, parameter and code of an error."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(msgspec.Struct, frozen=True):
    """The body of every error response."""

    error: ErrorDetail
