"""The attachment to one vLLM process: its queue, its thread and its loggers."""

import atexit
import logging
import os
import threading
from collections import Counter
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from hookline.frontend.observation import Observers
from hookline_vllm.engine_account import EngineAccount
from hookline_vllm.facts import engine_facts, served_name
from hookline_vllm.front_end import FrontEnd, NoticeClock
from hookline_vllm.notices import Inbox
from hookline_vllm.options import read_config
from hookline_vllm.pages import Pages
from hookline_vllm.shapes import complain

_log = logging.getLogger("hookline_vllm")

POLL_SECONDS = 0.05
"""A thread that looks now and then costs vLLM's threads nothing to wake."""

CLOSE_SECONDS = 2.0


class Attachment:
    """What the tiers of one process share.

    Attributes:
        inbox: Takes what vLLM's threads tell.
        pages: The loggers' pages.
        tells_requests: Whether vLLM's requests are told one by one.
        in_flight: HTTP requests in flight by (route, method).
    """

    def __init__(self) -> None:
        self.inbox = Inbox()
        self.pages = Pages()
        self.tells_requests = False
        self.in_flight: Counter[tuple[str, str]] = Counter()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._front_end: FrontEnd | None = None
        self._observers: Observers | None = None

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

    def flush(self, timeout_seconds: float) -> bool:
        """Waits until every logger is up to date; False if one is not in time."""
        self._drain()
        observers = self._observers
        return observers is not None and observers.flush(timeout_seconds)

    def settle(self, logger: str) -> float:
        """Has a logger get all for its page; returns the age of what is missing."""
        self._drain()
        return 0.0 if self._observers is None else self._observers.settle(logger)

    def close(self) -> None:
        """Ends the thread after the last notices, and then the loggers."""
        if self._thread is None or self._ended.is_set():
            return
        self._ended.set()
        self._thread.join(CLOSE_SECONDS)
        self._drain()
        try:
            if self._front_end is not None and self._observers is not None:
                self._front_end.close()
                self._observers.close(CLOSE_SECONDS)
        except Exception as error:  # noqa: BLE001 - vLLM must not notice
            complain("the end", error)

    def _run(self, vllm_config: Any, engine_indexes: list[int]) -> None:
        try:
            self._begin(vllm_config, engine_indexes)
        except Exception as error:
            _log.exception("hookline: no loggers, they do not start: %s", error)
            return
        while not self._ended.wait(POLL_SECONDS):
            self._drain()

    def _begin(self, vllm_config: Any, engine_indexes: list[int]) -> None:
        config = read_config(os.environ, served_name(vllm_config))
        observers = Observers(config)
        clock = NoticeClock()
        parallel = vllm_config.parallel_config
        is_alone = getattr(parallel, "_api_process_count", 1) == 1
        engines = {
            index: EngineAccount(
                engine_facts(vllm_config, index, _version()),
                config,
                observers,
                clock,
                is_alone=is_alone,
                tells_requests=self.tells_requests,
            )
            for index in engine_indexes
        }
        self._front_end = FrontEnd(engines, config, observers, clock)
        self._observers = observers
        self.pages.open(observers, self.settle)
        self._heartbeat_ns = round(config.observers.heartbeat_seconds * 1e9)
        self._beaten_at = 0
        _log.info(
            "hookline: attached to vLLM %s, loggers %s, %s",
            _version(),
            ", ".join(config.observers.stat_loggers) or "none",
            "each request is told" if self.tells_requests else "only sums are told",
        )

    def _drain(self) -> None:
        """Takes all notices in that there are."""
        with self._lock:
            if (front_end := self._front_end) is None:
                return
            while (notice := self.inbox.take()) is not None:
                try:
                    front_end.take(notice)
                except Exception as error:  # noqa: BLE001 - the next may be better
                    complain(type(notice).__name__, error)
            now = NoticeClock().now()
            if now - self._beaten_at >= self._heartbeat_ns:
                self._beaten_at = now
                front_end.tick(+self.in_flight)


def _version() -> str:
    try:
        return version("vllm")
    except PackageNotFoundError:
        return "unknown"


ATTACHMENT = Attachment()
"""The one of this process; each of the API servers has its own."""
