"""A stat logger that records every call."""

from hookline.hookspecs import hookimpl
from hookline.payloads import (
    CacheChanged,
    EngineFailed,
    EngineStarted,
    EngineStopped,
    FrontEndChanged,
    HttpAnswered,
    RecordsLogged,
    RequestsFinished,
    RequestsPreempted,
    RequestsQueued,
    RequestsScheduled,
    StateChanged,
    StepFinished,
    TokensGenerated,
)


class RecordingLogger:
    """Implements every observing hook.

    Attributes:
        calls: (hook, payload) in call order.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[str, object]] = []

    @hookimpl
    def engine_started(self, started: EngineStarted) -> None:
        self.calls.append(("engine_started", started))

    @hookimpl
    def engine_stopped(self, stopped: EngineStopped) -> None:
        self.calls.append(("engine_stopped", stopped))

    @hookimpl
    def engine_failed(self, failed: EngineFailed) -> None:
        self.calls.append(("engine_failed", failed))

    @hookimpl
    def requests_queued(self, queued: RequestsQueued) -> None:
        self.calls.append(("requests_queued", queued))

    @hookimpl
    def requests_scheduled(self, scheduled: RequestsScheduled) -> None:
        self.calls.append(("requests_scheduled", scheduled))

    @hookimpl
    def requests_preempted(self, preempted: RequestsPreempted) -> None:
        self.calls.append(("requests_preempted", preempted))

    @hookimpl
    def tokens_generated(self, generated: TokensGenerated) -> None:
        self.calls.append(("tokens_generated", generated))

    @hookimpl
    def requests_finished(self, finished: RequestsFinished) -> None:
        self.calls.append(("requests_finished", finished))

    @hookimpl
    def cache_changed(self, changed: CacheChanged) -> None:
        self.calls.append(("cache_changed", changed))

    @hookimpl
    def step_finished(self, step: StepFinished) -> None:
        self.calls.append(("step_finished", step))

    @hookimpl
    def state_changed(self, state: StateChanged) -> None:
        self.calls.append(("state_changed", state))

    @hookimpl
    def http_answered(self, answered: HttpAnswered) -> None:
        self.calls.append(("http_answered", answered))

    @hookimpl
    def records_logged(self, logged: RecordsLogged) -> None:
        self.calls.append(("records_logged", logged))

    @hookimpl
    def front_end_changed(self, changed: FrontEndChanged) -> None:
        self.calls.append(("front_end_changed", changed))
