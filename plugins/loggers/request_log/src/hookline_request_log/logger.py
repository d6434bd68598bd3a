"""The logger: writes the finished requests of each hook call at once."""

from collections import deque

from hookline.clock import Clock
from hookline.exceptions import HooklineError
from hookline.hookspecs import hookimpl
from hookline.payloads import (
    EngineFailed,
    EngineStarted,
    EngineStopped,
    StateChanged,
    StepFinished,
)
from hookline.stats.finished_request import FinishedRequest
from hookline.stats.iteration_stats import IterationStats
from hookline_metrics.adapter_trails import AdapterTrails
from hookline_request_log.encoding import encode
from hookline_request_log.line import make_line
from hookline_request_log.output import Output


class LostLinesError(HooklineError):
    """Lines were lost because a write failed; later lines are still attempted.

    Attributes:
        output: Name of the output.
        lines: Number of lines lost by this write.
        lines_in_all: Number of lines lost since the start.
    """

    def __init__(
        self, output: str, lines: int, lines_in_all: int, reason: OSError
    ) -> None:
        why = reason.strerror or str(reason)
        super().__init__(f"{output}: {lines} lines lost, {lines_in_all} in all: {why}")
        self.output = output
        self.lines = lines
        self.lines_in_all = lines_in_all


class RequestLogger:
    """Writes one line per finished request.

    Hooks run in the logger's own thread, so writes may block. A failed write raises
    from its hook call, and its lines are not kept for later.
    """

    def __init__(
        self, output: Output, clock: Clock, *, model: str, max_prompt_tokens: int | None
    ) -> None:
        """Makes a logger.

        Args:
            output: Destination of the lines.
            clock: Clock for requests without times.
            model: Served model name of an engine that has not started.
            max_prompt_tokens: Maximum token ids per prompt, and per output, in a line;
                None writes none.
        """
        self._output = output
        self._clock = clock
        self._model = model
        self._max_prompt_tokens = max_prompt_tokens
        self._models: dict[int, str] = {}
        self._trails = AdapterTrails()
        self._lost = 0

    @hookimpl
    def engine_started(self, started: EngineStarted) -> None:
        self._models[started.facts.engine_index] = started.facts.model_name

    @hookimpl
    def engine_stopped(self, stopped: EngineStopped) -> None:
        self._models.pop(stopped.engine_index, None)
        self._output.close()

    @hookimpl
    def engine_failed(self, failed: EngineFailed) -> None:
        """Closes the output: `engine_stopped` does not follow, but rejections may."""
        del failed
        self._output.close()

    @hookimpl
    def step_finished(self, step: StepFinished) -> None:
        self._observe(step.engine_index, step.iteration)

    @hookimpl
    def state_changed(self, state: StateChanged) -> None:
        self._observe(state.engine_index, state.iteration)

    def _observe(self, engine: int, iteration: IterationStats) -> None:
        if iteration.sections:
            self._trails.note(engine, iteration.sections)
        if iteration.finished:
            self._write(engine, iteration.finished)

    def _write(self, engine: int, finished: tuple[FinishedRequest, ...]) -> None:
        waiting = deque(self._encoded(engine, request) for request in finished)
        try:
            self._output.write(waiting)
        except OSError as error:
            self._lost += len(waiting)
            raise LostLinesError(
                self._output.name, len(waiting), self._lost, error
            ) from error

    def _encoded(self, engine: int, request: FinishedRequest) -> bytes:
        line = make_line(
            request,
            model=self._models.get(engine, self._model),
            engine=engine,
            now=self._clock.wall(),
            max_prompt_tokens=self._max_prompt_tokens,
            trail=self._trails.pop(engine, request.request_id),
        )
        return encode(line)
