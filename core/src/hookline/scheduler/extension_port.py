"""What the scheduler does for one extension."""

from collections.abc import Callable
from typing import TypeVar, cast

from hookline.events import PreemptionCause
from hookline.finish_cause import FinishCause
from hookline.kv_cache import KVCacheManager
from hookline.request import Request, RequestStatus
from hookline.scheduler.extension import SchedulerExtensions
from hookline.scheduler.lifecycle import RequestLifecycle
from hookline.scheduler.result_update import ResultUpdate

T = TypeVar("T")


class ExtensionPort:
    """Implements `SchedulerPort`."""

    def __init__(
        self,
        name: str,
        extensions: SchedulerExtensions,
        update: ResultUpdate,
        lifecycle: RequestLifecycle,
        cache: KVCacheManager,
    ) -> None:
        self._name = name
        self._extensions = extensions
        self._update = update
        self._lifecycle = lifecycle
        self.cache = cache

    def complete(
        self, request_id: int, cause: FinishCause, output: object, now: int
    ) -> None:
        self._update.complete(request_id, cause, {self._name: output}, now)

    def finish(self, request: Request, cause: FinishCause, now: int) -> None:
        self._lifecycle.finish_request(request, cause, now)

    def requeue(self, request: Request, now: int) -> bool:
        queues = self._lifecycle.queues
        if request not in queues.held:
            return False
        queues.held.discard(request)
        queues.wait(request, now)
        return True

    def preempt(
        self, request: Request, cause: PreemptionCause, now: int, *, num_failed: int = 0
    ) -> None:
        assert request.status is RequestStatus.RUNNING
        self._lifecycle.preempt(request, now, cause, num_failed=num_failed)

    def discard_pending(self, request: Request) -> None:
        request.num_doomed_results += request.num_pending_tokens
        request.num_pending_tokens = 0

    def report(self, statistics: object) -> None:
        self._extensions.report(self._name, statistics)

    def news(self, make: Callable[[], T]) -> T:
        news = self._extensions.news
        if self._name not in news:
            news[self._name] = make()
        return cast("T", news[self._name])


def start_sides(
    extensions: SchedulerExtensions,
    update: ResultUpdate,
    lifecycle: RequestLifecycle,
    cache: KVCacheManager,
) -> None:
    """Gives each side its port."""
    for name, side in extensions.sides.items():
        side.start(ExtensionPort(name, extensions, update, lifecycle, cache))
