"""How a request ended, in the words of the conventions."""

from hookline.request import FinishReason
from hookline.stats import FinishedRequest

_ERRORS = (FinishReason.ERROR, FinishReason.REJECTED)


def error_type(request: FinishedRequest) -> str:
    """Value of `error.type`; empty without an error. A client that left is none."""
    return request.reason.value if request.reason in _ERRORS else ""


def is_success(request: FinishedRequest) -> bool:
    """Whether the client got all that it asked for."""
    return request.reason in {FinishReason.STOP, FinishReason.LENGTH}
