"""Errors of the API: an HTTP status and OpenAI's JSON object."""

from collections.abc import Mapping

from hookline.exceptions import (
    ChatTemplateError,
    CommandError,
    CommandTimeoutError,
    EngineDeadError,
    EngineRestartingError,
    EngineSleepingError,
    EngineStalledError,
    HooklineError,
    LimitError,
    OverloadedError,
    PromptTooLongError,
    QueuedTokensError,
    RefusedError,
    RequestError,
)
from hookline.finish_cause import Rejected
from hookline_server.logs.redaction import without_secrets
from hookline_server.protocol.errors import ErrorBody, ErrorDetail
from hookline_server.protocol.wire import encode

TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    409: "invalid_request_error",
    408: "timeout_error",
    413: "invalid_request_error",
    414: "invalid_request_error",
    429: "rate_limit_error",
    431: "invalid_request_error",
    503: "service_unavailable_error",
    504: "timeout_error",
}

MAX_LOGGED_MESSAGE = 1000
"""Maximum length of an error message for observers; some repeat names and values."""

NO_MODEL = "model_not_found"
"""Code of a name that neither the model nor an adapter has."""

STATUSES: Mapping[type[HooklineError], tuple[int, str]] = {
    EngineRestartingError: (503, "engine_restarting"),
    EngineStalledError: (503, "engine_stalled"),
    EngineDeadError: (503, "engine_unavailable"),
    EngineSleepingError: (503, "sleeping"),
    QueuedTokensError: (429, "overloaded_tokens"),
    OverloadedError: (429, "overloaded"),
    CommandTimeoutError: (504, "command_timeout"),
    CommandError: (409, "command_refused"),
}
"""Status and code by class of error; a subclass comes before its base."""

RETRY_AFTER: Mapping[str, int] = {"loading": 10, "sleeping": 10, "pages_busy": 1}
"""Seconds after which a client should try again, by code of a 429 or 503."""

OTHER_RETRY_AFTER = 5
"""The same for all other codes of these."""


class ApiError(Exception):
    """An error response.

    Attributes:
        status: HTTP status.
        code: Stable code for programs.
        param: Name of the invalid field, as in the request; None if not applicable.
        retry_after_seconds: When to try again; None if that is of no use.
        limit: Name of the limit in metrics that the request exceeds, or empty.
        logged: Message for observers, which must not repeat a prompt; as a rule that
            of the client.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str,
        param: str | None = None,
        retry_after_seconds: int | None = None,
        limit: str = "",
        logged: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.param = param
        if retry_after_seconds is None and status in (429, 503):
            retry_after_seconds = RETRY_AFTER.get(code, OTHER_RETRY_AFTER)
        self.retry_after_seconds = retry_after_seconds
        self.limit = limit
        self.logged = message if logged is None else logged

    @property
    def rejection(self) -> Rejected:
        """The error as the cause of a request's end, for observers."""
        # Cut last, so that no half of a secret is left at the end.
        message = without_secrets(self.logged)[:MAX_LOGGED_MESSAGE]
        return Rejected(kind=self.code, message=message, limit=self.limit)


def as_api_error(
    error: ApiError | RequestError | CommandError | EngineDeadError,
) -> ApiError:
    """Converts an error of the core to an HTTP error."""
    if isinstance(error, ApiError):
        return error
    for kind, (status, code) in STATUSES.items():
        if isinstance(error, kind):
            retry = None
            if isinstance(error, OverloadedError):
                retry = error.retry_after_seconds
            return ApiError(status, str(error), code=code, retry_after_seconds=retry)
    if isinstance(error, LimitError):
        return ApiError(
            400,
            str(error),
            code="limit_exceeded",
            param=error.param,
            limit=error.limit,
        )
    code = "invalid_request"
    if isinstance(error, PromptTooLongError):
        code = "context_length_exceeded"
    elif isinstance(error, RefusedError):
        code = error.kind
    param = error.param if isinstance(error, RequestError) else None
    logged = error.summary if isinstance(error, ChatTemplateError) else None
    status = 404 if code == NO_MODEL else 400
    return ApiError(status, str(error), code=code, param=param, logged=logged)


def body_too_large(max_bytes: int) -> ApiError:
    """Returns the error for a request body above the limit."""
    message = f"the request body is larger than {max_bytes} bytes"
    return ApiError(413, message, code="body_too_large")


def error_body(error: ApiError) -> bytes:
    """Returns an error as OpenAI's JSON object, for a response or a stream."""
    kind = TYPES.get(error.status, "server_error")
    return encode(ErrorBody(ErrorDetail(str(error), kind, error.param, error.code)))
