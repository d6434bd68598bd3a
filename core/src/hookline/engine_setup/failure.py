"""Turns the error that ends an engine into one line."""

import logging
from collections.abc import Callable
from types import TracebackType

from hookline.exceptions import EngineDeadError, RankError

_log = logging.getLogger(__name__)


def describe_failure(error: BaseException) -> str:
    """Returns the error's kind and message in one line."""
    if isinstance(error, EngineDeadError):
        return error.reason
    if isinstance(error, RankError):
        return str(error)
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else 'no message'}"


def log_failure(error: Exception) -> str:
    """Logs the error that ends an engine; returns a line that describes it.

    Errors other than `EngineDeadError` are logged with their traceback.
    """
    if not isinstance(error, EngineDeadError):
        _log.error("the engine has failed", exc_info=error)
    return describe_failure(error)


class FailureNotice:
    """A context that reports an error that leaves it, and lets the error go on.

    Args:
        on_failure: Called with a line that describes the error.
    """

    def __init__(self, on_failure: Callable[[str], None]) -> None:
        self._on_failure = on_failure

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        if isinstance(error, Exception):
            self._on_failure(describe_failure(error))
        return None


class FailureBarrier(FailureNotice):
    """A context that logs and reports an error and stops it, where nobody could."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        self._on_failure(log_failure(error))
        return True
