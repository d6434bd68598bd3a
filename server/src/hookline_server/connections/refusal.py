"""Answers to requests that are not valid HTTP: JSON, and none of their bytes."""

import re
from email.utils import formatdate
from http import HTTPStatus

from aiohttp import http_exceptions, web

from hookline_server.api_error import ApiError, error_body

MAX_LINE_BYTES = 8190
"""Maximum length of a request's target."""

MAX_FIELD_BYTES = 8192
"""Maximum length of a header. It differs from that of the target, because the parser's
error has nothing but the limit to distinguish them."""

MAX_HEADERS = 100
MAX_HEADER_BYTES = 65536
"""Maximum number of headers, and of bytes of a request before its body."""

HEADERS_TOO_LARGE = "headers_too_large"
HEADER_TIMEOUT = "header_timeout"

_WORDS = re.compile(r"[A-Za-z0-9 `'/.,_-]{1,80}")


class Refusal(web.Response):
    """The answer to a request that no application handles; ends the connection."""

    def __init__(self, error: ApiError) -> None:
        super().__init__(status=error.status)
        self.error = error
        self.force_close()


def to_bytes(error: ApiError, request_id: str | None = None) -> bytes:
    """Returns an error as a whole HTTP response that ends its connection.

    aiohttp's own responses to such requests would have a Server header.
    """
    body = error_body(error)
    head = [
        f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        f"Date: {formatdate(usegmt=True)}",
        "Connection: close",
    ]
    if error.retry_after_seconds is not None:
        head.append(f"Retry-After: {error.retry_after_seconds}")
    if request_id is not None:
        head.append(f"X-Request-Id: {request_id}")
    return "\r\n".join([*head, "", ""]).encode() + body


def malformed(error: BaseException | None) -> ApiError:
    """Converts an error of aiohttp's parser.

    Its message contains bytes of the request, which may be secrets: only the parser's
    own words are kept.
    """
    match error:
        case http_exceptions.LineTooLong():
            return _line_too_long(error)
        case http_exceptions.BadHttpMethod():
            message = "the request line is not valid HTTP/1.1"
        case http_exceptions.BadStatusLine() | http_exceptions.InvalidURLError():
            message = "the request's target or version is not valid"
        case http_exceptions.BadHttpMessage() if "Too many headers" in str(error):
            return headers_too_large()
        case http_exceptions.HttpProcessingError():
            message = "the request is not valid HTTP"
        case _:
            message = "the request cannot be read"
    reason = _parsers_words(error)
    if reason:
        message = f"{message}: {reason}"
    return ApiError(400, message, code="invalid_request")


def headers_too_large() -> ApiError:
    """Returns the error for headers above one of the limits."""
    message = (
        f"the headers are too large: at most {MAX_HEADERS} of them, {MAX_FIELD_BYTES} "
        f"bytes each and {MAX_HEADER_BYTES} bytes together"
    )
    return ApiError(431, message, code=HEADERS_TOO_LARGE)


def headers_too_slow(seconds: float) -> ApiError:
    """Returns the error for headers that did not arrive in time."""
    message = f"the request's headers did not arrive within {seconds:g} s"
    return ApiError(408, message, code=HEADER_TIMEOUT)


def _line_too_long(error: http_exceptions.LineTooLong) -> ApiError:
    _, limit, *_ = error.args
    if limit != MAX_LINE_BYTES:
        return headers_too_large()
    message = f"the request's target is longer than {MAX_LINE_BYTES} bytes"
    return ApiError(414, message, code="target_too_long")


def _parsers_words(error: BaseException | None) -> str:
    """The parser's reason, which is one of its own constants; empty if there is none.

    It stands before the bytes of the request, separated from them by an empty line.
    """
    if not isinstance(error, http_exceptions.HttpProcessingError):
        return ""
    reason, separator, _ = error.message.partition(":\n\n")
    last = reason.splitlines()[-1].strip() if separator and reason else ""
    return last if _WORDS.fullmatch(last) else ""
