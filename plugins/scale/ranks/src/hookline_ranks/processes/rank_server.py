"""Carries out an executor's orders in the process of one rank."""

import logging
import time
from dataclasses import replace
from typing import Protocol

import msgspec

from hookline.clock import SystemClock
from hookline.config.engine import EngineConfig
from hookline.exceptions import ConfigError, ModelLoadError
from hookline.frozen import plain
from hookline.startup_timer import StartupTimer
from hookline.stats.step_work import RankUse
from hookline.step import AdmittedSequence, ModelShape, SleepLevel, StepPlan, StepResult
from hookline_models.importing import import_torch
from hookline_ranks.processes.ends import RankEnd
from hookline_ranks.processes.messages import (
    Allocate,
    Answer,
    Assist,
    Assisted,
    Computed,
    Done,
    End,
    Execute,
    LinkStages,
    Loaded,
    LoadModel,
    Order,
    Profile,
    Refusal,
    Refused,
    Room,
    Setup,
    Sleep,
    Task,
    WakeUp,
    Warm,
    WarmUp,
)
from hookline_registry import Failure, isolate

_log = logging.getLogger(__name__)


class RankWorker(Protocol):
    """The phases of a worker, whose class is imported when they begin."""

    def init_device(self) -> None: ...
    @property
    def feature_layers(self) -> tuple[int, ...]: ...
    def load_model(self) -> None: ...
    def link_stages(self, feature_layers: tuple[int, ...]) -> None: ...
    def profile(self) -> int: ...
    def allocate(self, num_blocks: int) -> None: ...
    def warm_up(self) -> ModelShape: ...
    def execute(self, plan: StepPlan) -> StepResult: ...
    def assist(self) -> RankUse: ...
    def sleep(self, level: SleepLevel) -> None: ...
    def wake_up(self) -> None: ...
    def close(self) -> None: ...


class RankServer:
    """One rank's worker, driven by orders."""

    def __init__(self, end: RankEnd) -> None:
        """Gets ready for orders; imports neither torch nor plugins."""
        self._end = end
        self._clock = SystemClock()
        self._timer = StartupTimer(self._clock)
        self._made: RankWorker | None = None
        self._decoder = msgspec.msgpack.Decoder(Order)
        self._encoder = msgspec.msgpack.Encoder(enc_hook=plain)

    def serve(self) -> bool:
        """Carries out orders until the end; returns whether none has failed.

        After an error that is not the user's to mend the rank serves no longer.
        """
        while not isinstance(order := self._next(), End):
            outcome = isolate(self._carry_out, order)
            if isinstance(outcome, Failure):
                refused = _refused(outcome)
                self._answer(refused)
                if refused.kind is Refusal.OTHER:
                    _log.error("the rank has failed", exc_info=outcome.error)
                    return False
            elif outcome is not None:
                self._answer(outcome)
        if self._made is not None:
            self._made.close()
        return True

    @property
    def _worker(self) -> RankWorker:
        assert self._made is not None, "Setup comes first"
        return self._made

    def _carry_out(self, task: Task) -> Answer | None:
        match task:
            case Execute() | Assist():
                return self._compute(task)
            case Setup(config):
                self._set_up(config)
            case LoadModel():
                self._worker.load_model()
                return Loaded(self._worker.feature_layers)
            case LinkStages(feature_layers):
                self._worker.link_stages(feature_layers)
            case Profile():
                return Room(self._worker.profile())
            case Allocate(num_blocks):
                self._worker.allocate(num_blocks)
            case WarmUp():
                shape = self._worker.warm_up()
                return Warm(shape, self._timer.phases())
            case Sleep(level):
                self._worker.sleep(level)
            case WakeUp():
                self._worker.wake_up()
        return Done()

    def _compute(self, task: Execute | Assist) -> Computed | Assisted | None:
        if isinstance(task, Execute):
            return self._execute(task.plan)
        return Assisted(self._worker.assist())

    def _execute(self, plan: StepPlan) -> Computed | None:
        started = time.perf_counter_ns()
        result = self._worker.execute(_with_shared(plan))
        self._end.end_step()
        if not self._end.is_output:
            if not result.sections:
                return None
            result = StepResult(sections=result.sections)
        return Computed(result, time.perf_counter_ns() - started)

    def _set_up(self, config: EngineConfig) -> None:
        with self._timer.phase("import torch"):
            import_torch(config, is_rank=True)
        with self._timer.phase("import model code"):
            from hookline_ranks.processes.rank_worker import (  # noqa: PLC0415
                make_worker,
                rank_config,
            )
        config = rank_config(config, self._end)
        self._made = make_worker(config, self._end, self._clock, self._timer)
        self._worker.init_device()

    def _next(self) -> Order:
        while (message := self._end.orders.read(None)) is None:
            pass
        order: Order = self._decoder.decode(message)
        return order

    def _answer(self, answer: Answer) -> None:
        self._end.answers.write(self._encoder.encode(answer), _wait_on)


def _with_shared(plan: StepPlan) -> StepPlan:
    """Returns a plan whose completions of one request share objects again."""
    if len(plan.admitted) < 2:
        return plan
    shared: list[AdmittedSequence] = []
    for each in plan.admitted:
        if shared and each.completion_index and each.params == shared[-1].params:
            before = shared[-1]
            each = replace(  # noqa: PLW2901
                each,
                params=before.params,
                bad_words_token_ids=before.bad_words_token_ids,
            )
        shared.append(each)
    return replace(plan, admitted=shared)


def _refused(failure: Failure) -> Refused:
    error = failure.error
    if isinstance(error, ConfigError):
        return Refused(Refusal.CONFIG, error.option, error.detail)
    if isinstance(error, ModelLoadError):
        return Refused(Refusal.MODEL, error.model, error.reason)
    return Refused(Refusal.OTHER, "", failure.summary)


def _wait_on() -> None:
    """An executor that has ended takes this process with it."""
