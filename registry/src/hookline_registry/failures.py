"""Counts what a plugin's calls raise, and logs each kind of it once."""

import logging

from hookline_registry.isolation import Failure

_LOGGER = logging.getLogger(__name__)


class FailureLog:
    """The failures of one plugin.

    Attributes:
        count: How many there were.
        last: The latest one in one line.
    """

    def __init__(self, plugin: str) -> None:
        self._plugin = plugin
        self._seen: set[tuple[str, str, str]] = set()
        self.count = 0
        self.last: str | None = None

    def add(self, hook: str, failure: Failure) -> None:
        """Counts a failure; its first like is logged with the traceback."""
        self.count += 1
        self.last = f"{hook}: {failure.summary}"
        # Texts may differ each time (a time, an id), so the place tells errors apart.
        kind = (hook, type(failure.error).__qualname__, _origin(failure.error))
        if kind in self._seen:
            return
        self._seen.add(kind)
        _LOGGER.error(
            "plugin %s failed in %s; further errors like this are only counted",
            self._plugin,
            hook,
            exc_info=failure.error,
        )


def _origin(error: BaseException) -> str:
    trace = error.__traceback__
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    return f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
