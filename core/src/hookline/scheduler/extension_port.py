"""What the scheduler does for one extension."""

from collections.abc import Callable
from typing import TypeVar, cast

from hookline.finish_cause import FinishCause
from hookline.scheduler.extension import SchedulerExtensions
from hookline.scheduler.result_update import ResultUpdate

T = TypeVar("T")


class ExtensionPort:
    """Implements `SchedulerPort`."""

    def __init__(
        self, name: str, extensions: SchedulerExtensions, update: ResultUpdate
    ) -> None:
        self._name = name
        self._extensions = extensions
        self._update = update

    def complete(
        self, request_id: int, cause: FinishCause, output: object, now: int
    ) -> None:
        self._update.complete(request_id, cause, {self._name: output}, now)

    def report(self, statistics: object) -> None:
        self._extensions.report(self._name, statistics)

    def news(self, make: Callable[[], T]) -> T:
        news = self._extensions.news
        if self._name not in news:
            news[self._name] = make()
        return cast("T", news[self._name])


def start_sides(extensions: SchedulerExtensions, update: ResultUpdate) -> None:
    """Gives each side its port."""
    for name, side in extensions.sides.items():
        side.start(ExtensionPort(name, extensions, update))
