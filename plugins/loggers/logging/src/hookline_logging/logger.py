"""The logger: writes a line from a hook when one is due, without its own thread."""

from structlog.typing import FilteringBoundLogger

from hookline.clock import Clock
from hookline.hookspecs import hookimpl
from hookline.payloads import (
    EngineFailed,
    EngineStarted,
    EngineStopped,
    RequestsPreempted,
    StateChanged,
    StepFinished,
)
from hookline.sampling_values import SamplingDefaults
from hookline.stats.iteration_stats import IterationStats
from hookline.stats.scheduler_stats import SchedulerStats
from hookline_logging.window import EngineWindow


class StateLogger:
    """Writes one line per interval for each active engine, and of its preemptions.

    The line that finds no request running or waiting is the last one until work comes
    again. Preemptions have lines of their own, at most one a second.
    """

    def __init__(
        self, log: FilteringBoundLogger, clock: Clock, *, interval_seconds: float
    ) -> None:
        self._log = log
        self._clock = clock
        self._interval_seconds = interval_seconds
        self._windows: dict[int, EngineWindow] = {}

    @hookimpl
    def engine_started(self, started: EngineStarted) -> None:
        facts = started.facts
        self._windows[facts.engine_index] = EngineWindow()
        self._log.info(
            "engine started",
            engine=facts.engine_index,
            model=facts.model_name,
            architecture=facts.model.architecture,
            dtype=facts.model.dtype,
            max_model_len=facts.model.max_model_len,
            kv_blocks=facts.model.num_kv_blocks,
            block_size=facts.block_size,
            executor=facts.executor,
            **_sampling(facts.model.sampling),
        )

    @hookimpl
    def engine_stopped(self, stopped: EngineStopped) -> None:
        window = self._windows.pop(stopped.engine_index, None)
        if window is not None and window.began_at is not None:
            self._write(stopped.engine_index, window, self._clock.now())

    @hookimpl
    def engine_failed(self, failed: EngineFailed) -> None:
        self._windows.pop(failed.engine_index, None)
        self._log.error(
            "engine failed",
            engine=failed.engine_index,
            reason=failed.reason,
            open_requests=failed.open_requests,
        )

    @hookimpl
    def requests_preempted(self, preempted: RequestsPreempted) -> None:
        index = preempted.engine_index
        if (window := self._windows.get(index)) is None:
            return
        if fields := window.preemption_lines.next_line(self._clock.now(), preempted):
            self._log.warning("request preempted", engine=index, **fields)

    @hookimpl
    def step_finished(self, step: StepFinished) -> None:
        self._take(step.engine_index, step.iteration, step.scheduler)

    @hookimpl
    def state_changed(self, state: StateChanged) -> None:
        self._take(state.engine_index, state.iteration, state.scheduler)

    def _take(
        self, index: int, iteration: IterationStats, state: SchedulerStats
    ) -> None:
        if (window := self._windows.get(index)) is None:
            return
        now = self._clock.now()
        window.add(now, iteration, state)
        if window.is_due(now, self._interval_seconds):
            self._write(index, window, now)

    def _write(self, index: int, window: EngineWindow, now: int) -> None:
        self._log.info("engine state", engine=index, **window.line(now))
        window.restart(now)


def _sampling(defaults: SamplingDefaults) -> dict[str, str]:
    """Returns what requests get where they are silent; nothing without defaults."""
    if not defaults.values:
        return {}
    found = " ".join(f"{name}={value}" for name, value in defaults.values.items())
    return {"sampling_defaults": found, "sampling_source": defaults.source}
