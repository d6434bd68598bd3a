"""The attachment to one vLLM process: its queue and its thread."""

import atexit
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

from hookline_registry import Failure, isolate
from hookline_vllm.notices import Inbox, now
from hookline_vllm.pages import Pages
from hookline_vllm.shapes import attach, complain

if TYPE_CHECKING:  # only the API server imports it, in the attachment's thread
    from hookline_vllm.telling import Telling

POLL_SECONDS = 0.5
"""A thread that looks now and then costs vLLM's threads nothing to wake.

What it does for many steps at once costs half of what it costs four times; pages are
up to date all the same, because it also looks before one is made.
"""

CLOSE_SECONDS = 2.0


class Attachment:
    """What the tiers of one process share.

    Attributes:
        inbox: Takes what vLLM's threads tell.
        pages: The loggers' pages.
        tells_requests: Whether vLLM's requests are told one by one.
        processor: vLLM's `OutputProcessor`, once it has had a request.
        in_flight: HTTP requests in flight by (route, method).
    """

    def __init__(self) -> None:
        self.inbox = Inbox()
        self.pages = Pages()
        self.tells_requests = False
        self.processor: Any = None
        self.in_flight: Counter[tuple[str, str]] = Counter()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._telling: Telling | None = None
        self._beaten_at = self._missed = 0

    def start(self, vllm_config: Any, engine_indexes: list[int]) -> None:
        """Begins to tell loggers, in a thread of its own; the first call counts."""
        with self._lock:
            if self._thread is not None:
                return
            self._thread = threading.Thread(
                target=self._run,
                args=(vllm_config, list(engine_indexes)),
                name="hookline-vllm",
                daemon=True,
            )
        atexit.register(self.close)
        self._thread.start()

    @property
    def has_begun(self) -> bool:
        """Whether the loggers run."""
        return self._telling is not None

    def tell(self, _: float) -> float:
        """Tells all that there is; nothing is left that would be old."""
        self._drain()
        return 0.0

    def close(self) -> None:
        """Ends the thread after the last notices, and then the loggers."""
        if self._thread is None or self._ended.is_set():
            return
        self._ended.set()
        self._thread.join(CLOSE_SECONDS)
        self._drain()
        if self._telling is not None:
            isolate(self._telling.close, CLOSE_SECONDS)

    def _run(self, vllm_config: Any, engine_indexes: list[int]) -> None:
        if not attach("loggers", lambda: self._begin(vllm_config, engine_indexes)):
            self.inbox.close()
            return
        while not self._ended.wait(POLL_SECONDS):
            self._drain()

    def _begin(self, vllm_config: Any, engine_indexes: list[int]) -> None:
        from hookline_vllm.telling import Telling  # noqa: PLC0415 - takes a second

        telling = Telling(
            vllm_config, engine_indexes, tells_requests=self.tells_requests
        )
        self.pages.open(telling.observers, self.tell)
        self._telling = telling

    def _drain(self) -> None:
        """Takes all notices in that there are."""
        with self._lock:
            if (telling := self._telling) is None:
                return
            is_lost = False
            while (notice := self.inbox.pop()) is not None:
                outcome = isolate(telling.front_end.handle, notice)
                if isinstance(outcome, Failure):
                    complain(type(notice).__name__, outcome)
                    is_lost = True
            if self._missed != self.inbox.dropped:
                self._missed = self.inbox.dropped
                complain("a full queue", Failure(OverflowError("notices are lost")))
                is_lost = True
            if is_lost:
                isolate(self._catch_up, telling)
            isolate(telling.front_end.flush)
            if now() - self._beaten_at >= telling.heartbeat_ns:
                self._beaten_at = now()
                isolate(telling.front_end.tick, +self.in_flight)

    def _catch_up(self, telling: "Telling") -> None:
        """Ends what vLLM does not know any more, as not all was told of it."""
        known = list(self.processor.request_states)  # atomic
        telling.front_end.keep(frozenset(known))


ATTACHMENT = Attachment()
"""The one of this process; each of the API servers has its own."""
