"""The logger: writes what each batch of hooks tells to have ended, in one go."""

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
from hookline.stats import FinishedRequest
from hookline_request_log.encoding import encode
from hookline_request_log.line import make_line
from hookline_request_log.output import Output


class LostLinesError(HooklineError):
    """Lines could not be written and are gone; later ones are tried again.

    Attributes:
        output: Where they should have gone.
        lines: How many, this time.
        lines_in_all: How many since the start.
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
    """One line for each request that ended, in a step or outside one.

    It runs in its lane's thread, so writing may take its time. What cannot be written
    is an error of that one hook call, and nothing is kept for later.
    """

    def __init__(
        self, output: Output, clock: Clock, *, model: str, max_prompt_tokens: int | None
    ) -> None:
        """Makes a logger.

        Args:
            output: Where lines go.
            clock: For requests that bring no times.
            model: The model's name, until an engine has told its own.
            max_prompt_tokens: Most token ids of a kind in a line; None writes none.
        """
        self._output = output
        self._clock = clock
        self._model = model
        self._max_prompt_tokens = max_prompt_tokens
        self._models: dict[int, str] = {}
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
        """Ends the file: `engine_stopped` does not follow, though rejections may."""
        del failed
        self._output.close()

    @hookimpl
    def step_finished(self, step: StepFinished) -> None:
        if step.iteration.finished:
            self._write(step.engine_index, step.iteration.finished)

    @hookimpl
    def state_changed(self, state: StateChanged) -> None:
        if state.iteration.finished:
            self._write(state.engine_index, state.iteration.finished)

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
        )
        return encode(line)
