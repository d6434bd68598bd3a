"""The executor that runs each rank of a model in a process of its own."""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar, runtime_checkable

import msgspec

from hookline.engine.worker.executor import ExecutorContext
from hookline.exceptions import ConfigError, ModelLoadError, RankError
from hookline.frozen import plain
from hookline.stats.step_work import RankUse
from hookline.step import ModelShape, SleepLevel, StepPlan, StepResult
from hookline_models.loading.cost import sum_of_costs
from hookline_ranks.processes.ends import StartRanks
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
    WakeUp,
    Warm,
    WarmUp,
)

A = TypeVar("A", bound=msgspec.Struct)

_LOOK_SECONDS = 1.0
"""How long a rank's answer is awaited before the ranks are looked at."""
_BRIEF_SECONDS = 0.01
"""The same where answers of several ranks are awaited."""


@dataclass(frozen=True, slots=True)
class _OrderedStep:
    """A step that the ranks compute."""

    executor: "RanksExecutor"
    started_ns: int

    def result(self) -> StepResult:
        """Implements `StartedStep`."""
        return self.executor.next_result(self.started_ns)


class RanksExecutor:
    """Drives all ranks through the same phases, and tells all of them each step.

    Attributes:
        shape: The loaded model, and the size of its KV cache.
        pids: Process ids, by rank.
        hosts: Names of the machines of these processes; empty if it is this one.
    """

    def __init__(self, context: ExecutorContext, start: StartRanks) -> None:
        """Starts the ranks, which load the model and allocate its KV cache.

        Args:
            context: What the executor is built from.
            start: Starts the processes of the ranks.

        Raises:
            ModelLoadError: The model cannot be loaded or served.
            ConfigError: An option does not fit the model or the machine.
            RankError: A rank has ended.
        """
        parallel = context.config.parallel
        self._output_rank = parallel.output_rank
        self._num_ranks = parallel.world_size
        self._num_tensor_ranks = parallel.tensor_parallel_size
        self._ended_ns = 0
        self._joins = _joins(context)
        self._encoder = msgspec.msgpack.Encoder(enc_hook=plain)
        self._decoder = msgspec.msgpack.Decoder(Answer)
        with context.timer.phase("start ranks"):
            self._ranks = start(context.config)
        self.pids, self.hosts = self._ranks.pids, self._ranks.hosts
        with ExitStack() as undoing:
            undoing.callback(self.close)
            self._load(context)
            undoing.pop_all()

    def _load(self, context: ExecutorContext) -> None:
        self._ask(Setup(context.config), Done)
        loaded = self._ask(LoadModel(), Loaded)
        self._ask(LinkStages(loaded[self._output_rank].feature_layers), Done)
        rooms = self._ask(Profile(), Room)
        self._ask(Allocate(min(each.num_blocks for each in rooms)), Done)
        ranks = self._ask(WarmUp(), Warm)
        warm = ranks[self._output_rank]
        shapes = [each.shape for each in ranks]
        self.shape = _whole(warm.shape, shapes, self._num_tensor_ranks)
        self._forget_counts()
        context.timer.include(warm.phases)

    def start(self, plan: StepPlan) -> _OrderedStep:
        started = time.perf_counter_ns()
        self._write(Execute(plan))
        return _OrderedStep(self, started)

    def next_result(self, started_ns: int) -> StepResult:
        """Waits for the result of the oldest step whose result nobody has taken.

        Args:
            started_ns: When the step was ordered, by `time.perf_counter_ns`.

        Raises:
            RankError: A rank has ended, or could not compute its part.
        """
        answer = self._computed(self._output_rank)
        now, result = time.perf_counter_ns(), answer.result
        # A step that is ordered ahead waits for the one before it first.
        passed, self._ended_ns = now - max(started_ns, self._ended_ns), now
        handover = max(0, passed - answer.executed_ns)
        use = self._with_counts(result.execution.rank_use, handover)
        result = result.with_execution(rank_use=use)
        return self._join(result) if self._joins else result

    def assist(self) -> RankUse:
        return self._ask(Assist(), Assisted)[self._output_rank].use

    def _with_counts(self, use: RankUse, handover_ns: int) -> RankUse:
        """Adds what the output rank does not know to what it does."""
        use = msgspec.structs.replace(use, handover_ns=handover_ns)
        if (counts := self._ranks.expert_counts) is None:
            return use
        tokens, size = counts.take(), self._num_tensor_ranks
        stages = [tokens[at : at + size] for at in range(0, len(tokens), size)]
        return msgspec.structs.replace(
            use,
            expert_tokens=tokens,
            expert_busiest_tokens=size * sum(max(stage) for stage in stages),
        )

    def _forget_counts(self) -> None:
        """Leaves out what experts have computed: no request has asked for it."""
        if (counts := self._ranks.expert_counts) is not None:
            counts.take()

    def _join(self, own: StepResult) -> StepResult:
        """Joins sections of the output rank's result with those of the other ranks."""
        others = [rank for rank in range(self._num_ranks) if rank != self._output_rank]
        found = [own, *(self._computed(rank).result for rank in others)]
        joined = {
            name: join([each.sections[name] for each in found])
            for name, join in self._joins.items()
        }
        return replace(own, sections={**own.sections, **joined})

    def _computed(self, rank: int) -> Computed:
        while (answer := self._read(rank, _LOOK_SECONDS)) is None:
            self.check()
        if isinstance(answer, Refused):
            raise RankError(rank, answer.detail)
        assert isinstance(answer, Computed)
        return answer

    def check(self) -> None:
        if (failure := self._ranks.find_failure()) is None:
            return
        for rank in range(self._num_ranks):
            while (answer := self._read(rank, 0.0)) is not None:
                if isinstance(answer, Refused):
                    raise RankError(rank, answer.detail)
        raise failure

    def sleep(self, level: SleepLevel) -> None:
        self._ask(Sleep(level), Done)

    def wake_up(self) -> None:
        self._ask(WakeUp(), Done)
        self._forget_counts()

    def close(self) -> None:
        if self._ranks.find_failure() is None:
            self._write(End())
        self._ranks.close()

    def _ask(self, order: Order, kind: type[A]) -> Sequence[A]:
        """Has all ranks carry out an order; returns their answers by rank.

        Raises:
            ConfigError: A rank refused an option.
            ModelLoadError: A rank could not load the model.
            RankError: A rank has ended, or failed for another reason.
        """
        self._write(order)
        found: dict[int, A] = {}
        ranks = range(self._num_ranks)
        while len(found) < len(ranks):
            for rank in ranks:
                if rank in found:
                    continue
                answer = self._read(rank, _BRIEF_SECONDS)
                if isinstance(answer, Refused):
                    raise _error(rank, answer)
                if isinstance(answer, kind):
                    found[rank] = answer
            self.check()
        return [found[rank] for rank in ranks]

    def _write(self, order: Order) -> None:
        self._ranks.orders.write(self._encoder.encode(order), self.check)

    def _read(self, rank: int, timeout_seconds: float) -> Answer | None:
        message = self._ranks.answers[rank].read(timeout_seconds)
        return None if message is None else self._decoder.decode(message)


@runtime_checkable
class JoinedExtension(Protocol):
    """An extension whose sides have a section in each result of every rank."""

    def join_ranks(self, num_ranks: int) -> Callable[[Sequence[object]], object]:
        """Returns what makes one section out of those of all ranks.

        It is called once for each result, in the order of the steps, with the section
        of the output rank first.
        """


def _joins(
    context: ExecutorContext,
) -> dict[str, Callable[[Sequence[object]], object]]:
    """Returns what joins the sections of several ranks, by the extensions' names."""
    size = context.config.parallel.world_size
    return {
        name: each.join_ranks(size)
        for name, each in context.extensions.items()
        if isinstance(each, JoinedExtension) and size > 1
    }


def _error(rank: int, refused: Refused) -> ConfigError | ModelLoadError | RankError:
    match refused.kind:
        case Refusal.CONFIG:
            return ConfigError(refused.subject, refused.detail)
        case Refusal.MODEL:
            return ModelLoadError(refused.subject, refused.detail)
        case Refusal.OTHER:
            return RankError(rank, refused.detail)


def _whole(
    shape: ModelShape, ranks: Sequence[ModelShape], tensor_parallel_size: int
) -> ModelShape:
    """Returns the whole model's shape.

    Args:
        shape: The shape of the output rank.
        ranks: The shapes of all ranks.
        tensor_parallel_size: Number of ranks of each pipeline stage.
    """
    stages = ranks[::tensor_parallel_size]
    windows = [each.sliding_window for each in stages if each.sliding_window]
    return replace(
        shape,
        cost=sum_of_costs([each.cost for each in stages]),
        sliding_window=max(windows, default=None),
        rank_sections=tuple(one for each in ranks for one in each.rank_sections),
    )
