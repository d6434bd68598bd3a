"""Stat logger `flight_recorder`: saves the rings of this server's engines.

It does so when an engine fails, when a step takes too long, when many requests miss
their objectives, on `POST /debug/recording`, and on SIGUSR2. It also keeps a ring of
what the front end tells of requests.
"""

import json
import os
import signal
import threading
import time
from collections import deque
from types import FrameType

from hookline import hookimpl
from hookline.pages import PageRequest, PageResponse, Routes
from hookline.payloads import (
    EngineFailed,
    EngineStarted,
    EngineStopped,
    HttpAnswered,
    LoggerContext,
    RequestsFinished,
)
from hookline.tells import Tells
from hookline_metrics.slo import misses_of
from hookline_recording.config import RecordingConfig
from hookline_recording.front_end import FrontEndRing
from hookline_recording.saving import Saving

PATH = "/debug/recording"
_NO_RING = (
    "no engine of this server has a ring on this machine; engines have one with "
    "--flight-recorder-bytes above 0"
)
BURST_MISSES, BURST_SECONDS = 10, 10.0
"""This many requests that miss their objectives in this time are a burst."""
_LOOK_SECONDS = 1.0


class Watch:
    """Watches one server; its calls come from the logger's lane."""

    def __init__(self, saving: Saving) -> None:
        """Begins to look for stalls."""
        self._saving = saving
        self._front_end: FrontEndRing | None = None
        self._engines: set[int] = set()
        self._misses: deque[float] = deque(maxlen=BURST_MISSES)
        self._ended = threading.Event()
        threading.Thread(
            target=self._watch, name="hookline-recording-watch", daemon=True
        ).start()

    @hookimpl
    def engine_started(self, started: EngineStarted) -> None:
        self._engines.add(started.facts.engine_index)
        if self._front_end is None:
            self._front_end = self._saving.front_end()

    @hookimpl
    def engine_failed(self, failed: EngineFailed) -> None:
        del failed
        self._saving.save_unasked("failure")

    @hookimpl
    def engine_stopped(self, stopped: EngineStopped) -> None:
        self._saving.forget(stopped.engine_index)
        self._engines.discard(stopped.engine_index)
        if not self._engines:
            self.close()

    @hookimpl
    def requests_finished(self, finished: RequestsFinished) -> None:
        now = time.monotonic()
        for request in finished.requests:
            if self._front_end is not None:
                self._front_end.add_served(finished.engine_index, request)
            if misses_of(request):
                self._misses.append(now)
        is_full = len(self._misses) == BURST_MISSES
        if is_full and now - self._misses[0] <= BURST_SECONDS:
            self._misses.clear()
            self._saving.save_unasked("slo")

    @hookimpl
    def http_answered(self, answered: HttpAnswered) -> None:
        if self._front_end is None:
            return
        for exchange in answered.exchanges:
            if exchange.client_id:
                self._front_end.add_answered(exchange)

    @hookimpl
    def add_routes(self, routes: Routes) -> None:
        routes.post(PATH, self._page)
        self.take_signal()

    def take_signal(self) -> None:
        """Saves on SIGUSR2 from now on; only the main thread can ask for signals."""
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGUSR2, self._on_signal)

    def close(self) -> None:
        """Ends the thread, and removes the ring of the front end."""
        self._ended.set()
        if self._front_end is not None:
            self._front_end.close()
            self._front_end = None

    def _page(self, request: PageRequest) -> PageResponse:
        del request
        saved, refused = self._saving.save("asked")
        told: dict[str, object] = {"recordings": saved, "refused": refused}
        status = 200
        if refused:
            also = f"; saved: {', '.join(saved)}" if saved else ""
            told["error"] = {"code": "not_saved", "message": "; ".join(refused) + also}
            status = 507
        elif not saved:
            told["error"] = {"code": "no_recording", "message": _NO_RING}
            status = 404
        return PageResponse(
            body=json.dumps(told).encode(),
            content_type="application/json",
            status=status,
        )

    def _on_signal(self, _: int, __: FrameType | None) -> None:
        threading.Thread(
            target=self._saving.save, args=("signal",), name="hookline-recording-save"
        ).start()

    def _watch(self) -> None:
        while not self._ended.wait(_LOOK_SECONDS):
            self._saving.look(time.monotonic_ns())


@hookimpl
def logger_needs() -> tuple[Tells, ...]:
    return (Tells.PLAN,)


@hookimpl
def create_stat_logger(context: LoggerContext) -> Watch:
    config = RecordingConfig.of(context.config)
    keep, stall_seconds = config.flight_recorder_keep, config.stall_seconds
    if not context.config.observers.observer_process:
        return Watch(Saving(os.getpid(), keep, stall_seconds))
    watch = Watch(Saving(os.getppid(), keep, stall_seconds))
    watch.take_signal()
    return watch
