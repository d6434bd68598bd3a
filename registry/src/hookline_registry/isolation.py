"""Calls plugin code and contains every exception."""

import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Failure:
    """The exception that ended a call.

    Attributes:
        error: The exception, with its traceback.
    """

    error: BaseException

    @property
    def summary(self) -> str:
        """Type and text of the error, for messages."""
        text = isolate(str, self.error)  # its __str__ is plugin code too
        kind = type(self.error).__name__
        if isinstance(text, Failure):
            return f"{kind} (whose text cannot be shown)"
        return f"{kind}: {text}" if text else kind

    @property
    def place(self) -> str:
        """File and line where it was raised, for messages; empty if unknown."""
        frames = traceback.extract_tb(self.error.__traceback__)
        if len(frames) < 2:  # only the call itself
            return ""
        return f"{frames[-1].filename}, line {frames[-1].lineno}"


def isolate(
    call: Callable[Parameters, Result],
    *arguments: Parameters.args,
    **keywords: Parameters.kwargs,
) -> Result | Failure:
    """Calls plugin code and returns its result, or a `Failure`.

    Every exception is contained, SystemExit too, except the user's Ctrl-C in the main
    thread.
    """
    try:
        return call(*arguments, **keywords)
    except BaseException as error:  # the one place that catches all
        if isinstance(error, KeyboardInterrupt) and _is_main_thread():
            raise
        return Failure(error)


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
