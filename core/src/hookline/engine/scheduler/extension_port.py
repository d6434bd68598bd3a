"""What the scheduler does for one extension."""

from collections.abc import Callable
from typing import TypeVar, cast

from hookline.engine.scheduler.lifecycle import RequestLifecycle
from hookline.engine.scheduler.result_update import ResultUpdate
from hookline.events import PreemptionCause
from hookline.finish_cause import FinishCause
from hookline.request import Request, RequestStatus

T = TypeVar("T")


class SchedulerPort:
    """What the scheduler does for one extension. For the engine's thread.

    Attributes:
        cache: The KV cache.
    """

    def __init__(
        self, name: str, update: ResultUpdate, lifecycle: RequestLifecycle
    ) -> None:
        self._name, self._update, self._lifecycle = name, update, lifecycle
        self._extensions, self.cache = lifecycle.extensions, lifecycle.cache

    def complete(
        self, request_id: int, cause: FinishCause, output: object, now: int
    ) -> None:
        """Ends a request whose result is there, and gives `output` to its client.

        Does nothing if it has ended meanwhile. If KV that it was computed with turned
        out to be wrong, it is computed again instead.
        """
        self._update.complete(request_id, cause, {self._name: output}, now)

    def finish(self, request: Request, cause: FinishCause, now: int) -> None:
        """Ends a request, wherever it is."""
        self._lifecycle.finish_request(request, cause, now)

    def requeue(self, request: Request, now: int) -> bool:
        """Queues a request again that is held at a gate; False if it is not held."""
        queues = self._lifecycle.queues
        if request not in queues.held:
            return False
        queues.held.let_go(request, now)
        queues.wait(request, now)
        return True

    def preempt(
        self, request: Request, cause: PreemptionCause, now: int, *, num_failed: int = 0
    ) -> None:
        """Frees a running request's blocks and queues it again.

        Args:
            request: The request.
            cause: Why it is preempted.
            now: Time, ns.
            num_failed: How many of its tokens should have been brought and were not.
        """
        assert request.status is RequestStatus.RUNNING
        self._lifecycle.preempt(request, now, cause, num_failed=num_failed)

    def discard_pending(self, request: Request) -> None:
        """Drops the results in flight of a request: they depend on wrong KV."""
        request.num_doomed_results += request.num_pending_tokens
        request.num_pending_tokens = 0

    def report(self, statistics: object) -> None:
        """Replaces the extension's section of `SchedulerStats`."""
        self._extensions.report(self._name, statistics)

    def news(self, make: Callable[[], T]) -> T:
        """Returns the extension's section of the next output; makes it if needed."""
        news = self._extensions.news
        if self._name not in news:
            news[self._name] = make()
        return cast("T", news[self._name])
