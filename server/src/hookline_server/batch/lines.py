"""Lines of a batch: requests as they are read, and results as they are written."""

from typing import Literal

import msgspec
from msgspec import Raw

from hookline_server.protocol.wire import encode

REFUSED_FOR_NOW = (429, 503)
"""Statuses with which an overloaded server refuses a request."""

SHOWN_CHARACTERS = 256
"""Maximum characters of a line in an error."""


class BatchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the input."""

    custom_id: str
    method: Literal["POST"] = "POST"
    url: str
    body: Raw


class BatchResponse(msgspec.Struct, frozen=True, kw_only=True):
    """What the server answered."""

    status_code: int
    request_id: str
    body: Raw

    @property
    def is_final(self) -> bool:
        """Whether a retry would get the same response."""
        return self.status_code < 500 and self.status_code not in REFUSED_FOR_NOW


class BatchError(msgspec.Struct, frozen=True, kw_only=True):
    """Why a line has no response."""

    code: str
    message: str


class BatchResult(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the output: a response, or an error."""

    id: str
    custom_id: str | None
    response: BatchResponse | None = None
    error: BatchError | None = None

    @property
    def is_failure(self) -> bool:
        """Whether the result is an error."""
        return self.response is None or self.response.status_code != 200


class LineError(Exception):
    """A line that cannot be sent as a request.

    Attributes:
        custom_id: The request's id, if it could be read.
        error: The error in the output.
    """

    def __init__(self, code: str, message: str, custom_id: str | None = None) -> None:
        super().__init__(message)
        self.custom_id = custom_id
        self.error = BatchError(code=code, message=message)


class _Named(msgspec.Struct, frozen=True):
    custom_id: str | None = None


_decode_request = msgspec.json.Decoder(BatchRequest).decode
_decode_named = msgspec.json.Decoder(_Named).decode


def read_request(line: bytes, number: int, urls: frozenset[str]) -> BatchRequest:
    """Reads a line of the input.

    Args:
        line: Its bytes.
        number: Its number, for errors.
        urls: The paths that a request may have.

    Raises:
        LineError: It is not a request, or one for another path.
    """
    try:
        request = _decode_request(line)
    except (ValueError, RecursionError) as error:
        raise LineError(
            "invalid_line", f"line {number}: {error}", _custom_id(line)
        ) from error
    if not request.custom_id:
        raise LineError("invalid_line", f"line {number}: custom_id is empty")
    if request.url not in urls:
        shown, known = request.url[:SHOWN_CHARACTERS], ", ".join(sorted(urls))
        raise LineError(
            "invalid_url",
            f"line {number}: url must be one of {known}, not {shown!r}",
            request.custom_id,
        )
    return request


def result_line(result: BatchResult) -> bytes:
    """Returns a line of the output."""
    return encode(result) + b"\n"


def _custom_id(line: bytes) -> str | None:
    try:
        return _decode_named(line).custom_id
    except (ValueError, RecursionError):
        return None
