"""OpenAI's shape of an error."""

import msgspec


class ErrorDetail(msgspec.Struct, frozen=True):
    """What went wrong, for a person and for a machine."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(msgspec.Struct, frozen=True):
    """The body of every response that is not a success."""

    error: ErrorDetail
