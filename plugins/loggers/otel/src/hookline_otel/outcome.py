"""A request's outcome in the terms of the GenAI conventions."""

from hookline.request import FinishReason
from hookline.stats import FinishedRequest

_ERRORS = (FinishReason.ERROR, FinishReason.REJECTED, FinishReason.TIMEOUT)


def error_type(request: FinishedRequest) -> str:
    """Returns `error.type`, empty without an error; an abort is not an error."""
    return request.reason.value if request.reason in _ERRORS else ""


def is_success(request: FinishedRequest) -> bool:
    """Whether the request finished normally (`stop` or `length`)."""
    return request.reason in {FinishReason.STOP, FinishReason.LENGTH}
