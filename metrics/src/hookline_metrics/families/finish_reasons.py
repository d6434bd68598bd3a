"""The reason of a request's end, as a label."""

from hookline.request import FinishReason
from hookline.stats.finished_request import FinishedRequest
from hookline_metrics.metric import Label

_PREFILLED = "prefilled"
_WHOLE = (FinishReason.STOP, FinishReason.LENGTH)

REASON = Label("reason", (*(reason.value for reason in FinishReason), _PREFILLED))


def reason_of(request: FinishedRequest) -> str:
    """Returns the reason; a prompt that another instance continues is no success.

    That instance counts the success, so that a client's request counts once.
    """
    if request.decodes_elsewhere and request.reason in _WHOLE:
        return _PREFILLED
    return request.reason.value
