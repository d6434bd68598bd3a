"""A request's outcome in the terms of the GenAI conventions."""

import re

from hookline.finish_cause import Rejected
from hookline.request import FinishReason
from hookline.stats.finished_request import FinishedRequest

OTHER = "_OTHER"
"""Value of the conventions for an error without a short name."""

_ERRORS = {FinishReason.ERROR: "engine_error", FinishReason.TIMEOUT: "timeout"}
_CODE = re.compile(r"[a-z][a-z0-9_]{0,63}")


def is_rejected(request: FinishedRequest) -> bool:
    """Whether the request was refused before it reached an engine."""
    return request.reason is FinishReason.REJECTED


def error_type(request: FinishedRequest) -> str:
    """Returns `error.type`, empty without an error; an abort is not an error.

    That of a rejected request is the code of the error that its client got.
    """
    cause = request.cause
    if isinstance(cause, Rejected):
        return cause.kind if _CODE.fullmatch(cause.kind) else OTHER
    return _ERRORS.get(cause.reason, "")


def finish_reason(request: FinishedRequest) -> str:
    """Returns the conventions' finish reason: `error` unless it finished normally."""
    return request.reason.value if is_success(request) else "error"


def is_success(request: FinishedRequest) -> bool:
    """Whether the request finished normally (`stop` or `length`)."""
    return request.reason in {FinishReason.STOP, FinishReason.LENGTH}
