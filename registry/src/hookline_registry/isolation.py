"""Calls plugin code so that whatever it raises hurts nobody else."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Failure:
    """What a call raised instead of returning.

    Attributes:
        error: The exception, with its traceback.
    """

    error: BaseException

    @property
    def summary(self) -> str:
        """Kind and text of the error in a message's form."""
        text = isolate(str, self.error)  # its __str__ is plugin code too
        kind = type(self.error).__name__
        if isinstance(text, Failure):
            return f"{kind} (whose text cannot be shown)"
        return f"{kind}: {text}" if text else kind


def isolate(
    call: Callable[Parameters, Result],
    *arguments: Parameters.args,
    **keywords: Parameters.kwargs,
) -> Result | Failure:
    """Calls plugin code and returns its result, or the failure it ended with.

    A plugin that raises SystemExit or an exception of its own making ends no thread and
    no process. Only the user's Ctrl-C, which arrives in the main thread, goes through.
    """
    try:
        return call(*arguments, **keywords)
    except BaseException as error:  # the one place that catches all
        if isinstance(error, KeyboardInterrupt) and _is_main_thread():
            raise
        return Failure(error)


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
