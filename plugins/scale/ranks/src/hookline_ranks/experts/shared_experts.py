"""The ranks of all engines of one machine, which compute each other's tokens."""

from collections.abc import Callable

import torch

from hookline.config import EngineConfig
from hookline.exceptions import RankError
from hookline.stats.step_work import RankUse
from hookline_kernels import import_compiled
from hookline_ranks.experts.expert_group import ComputeExperts, ExpertTokens
from hookline_ranks.experts.expert_placement import ExpertPlace
from hookline_ranks.experts.links import ExpertLinks
from hookline_ranks.experts.memory import ExpertMemory
from hookline_ranks.processes.memory_group import DEADLINE_SECONDS

_DISPATCH, _COMBINE = 1, 2
"""What ranks meet for: they have written tokens, or results."""


class SharedExperts:
    """A `StepExperts` of processes, or threads, that share memory.

    Attributes:
        place: This rank's place.
        is_on: Calls reach the others.
    """

    def __init__(
        self,
        tokens: int,
        place: ExpertPlace,
        *,
        max_tokens: int,
        deadline_seconds: float = DEADLINE_SECONDS,
    ) -> None:
        """Takes what is known before the model.

        Args:
            tokens: Descriptor of the memory, inherited.
            place: This rank's place.
            max_tokens: Largest number of tokens of an engine's step.
            deadline_seconds: How long to wait for another rank.
        """
        self.place, self.is_on = place, False
        self._descriptor, self._max_tokens = tokens, max_tokens
        self._deadline = deadline_seconds
        self._layers: list[ComputeExperts] = []
        self._memory: ExpertMemory | None = None
        self._waited_ns = 0

    @classmethod
    def of_rank(cls, config: EngineConfig, links: ExpertLinks) -> "SharedExperts":
        """Attaches a rank to what its engine has inherited.

        Args:
            config: The rank's configuration.
            links: The engine's links.
        """
        size = config.parallel.tensor_parallel_size
        place = ExpertPlace(
            rank=links.index * size + config.parallel.tensor_rank,
            size=links.num_engines * size,
            engines=links.num_engines,
        )
        max_tokens = config.scheduler.tokens_per_step
        return cls(links.tokens, place, max_tokens=max_tokens)

    # -- the model ---------------------------------------------------------------

    def add_layer(self, compute: ComputeExperts) -> None:
        """Implements `ExpertGroup`."""
        self._layers.append(compute)

    def open(self, width: int, dtype: torch.dtype) -> None:
        """Implements `StepExperts`; memory that is mapped already is kept."""
        if self._memory is not None:
            return
        memory = ExpertMemory(
            self._descriptor,
            self.place,
            width=width,
            dtype=dtype,
            max_tokens=self._max_tokens,
        )
        meeting = import_compiled("hookline_kernels.cpu.rank_meeting")
        meeting.meeting_kernel()  # before others wait for it
        self._meeting = meeting.RankMeeting(
            memory.address,
            self.place.rank,
            self.place.size,
            deadline_seconds=self._deadline,
        )
        self._memory, self._counts = memory, memory.counts

    def join(self) -> None:
        """Implements `StepExperts`."""
        self.is_on = True

    def leave(self) -> None:
        """Implements `StepExperts`."""
        self.is_on = False
        self._layers.clear()

    # -- a step ------------------------------------------------------------------

    def exchange(self, own: ExpertTokens, compute: ComputeExperts) -> torch.Tensor:
        """Implements `ExpertGroup`."""
        result, rows = torch.empty_like(own.hidden), self._opened.rows

        def collect(start: int) -> None:
            if len(part := result[start : start + rows]):
                parts = self._opened.results(len(part))
                summed = parts[0].clone()
                for other in parts[1:]:
                    summed += other
                part.copy_(summed)

        self._run(own, compute, collect)
        return result

    @torch.inference_mode()
    def assist(self) -> None:
        """Implements `StepExperts`."""
        for compute in self._layers:
            self._run(None, compute, _take_nothing)

    def count(self, pairs: int) -> None:
        """Implements `ExpertGroup`; what is computed before `join` does not count."""
        if self.is_on:
            self._opened.count(pairs)

    def end_step(self) -> RankUse:
        """Implements `StepExperts`."""
        before, self._counts = self._counts, self._opened.counts
        waited, self._waited_ns = self._waited_ns, self._meeting.waited_ns
        by_rank = [now - then for now, then in zip(self._counts, before, strict=True)]
        size = self.place.ranks_of_engine
        first = self.place.engine * size
        return RankUse(
            expert_tokens=tuple(by_rank[first : first + size]),
            expert_busiest_tokens=size * max(by_rank),
            expert_wait_ns=self._waited_ns - waited,
        )

    @property
    def _opened(self) -> ExpertMemory:
        assert self._memory is not None, "open comes first"
        return self._memory

    def _run(
        self,
        own: ExpertTokens | None,
        compute: ComputeExperts,
        collect: Callable[[int], None],
    ) -> None:
        """Has all ranks compute some rows of all engines, until all are done.

        Args:
            own: The tokens of this rank's engine; None for a step without any.
            compute: Computes tokens in this rank's experts.
            collect: Called with the first row of each round, whose results are there.
        """
        memory = self._opened
        total = 0 if own is None else len(own.hidden)
        start, longest = 0, None
        while longest is None or start < longest:
            if self.place.tensor_rank == 0:
                memory.put(total, _rows(own, start, memory.rows))
            self._meet(_DISPATCH)
            longest = memory.longest if longest is None else longest
            self._compute(start, compute)
            self._meet(_COMBINE)
            collect(start)
            start += memory.rows

    def _compute(self, start: int, compute: ComputeExperts) -> None:
        """Computes this round's rows of all engines in this rank's experts."""
        memory = self._opened
        found = {
            engine: rows
            for engine in range(self.place.engines)
            if (rows := memory.rows_of(engine, start)) is not None
        }
        if not found:
            return
        summed = compute(_joined(list(found.values())))
        parts = summed.split([len(rows.hidden) for rows in found.values()])
        for engine, part in zip(found, parts, strict=True):
            memory.result_for(engine, len(part)).copy_(part)

    def _meet(self, purpose: int) -> None:
        self._meeting.meet(purpose)
        if (absent := self._meeting.absent) is not None:
            raise RankError(*self._blamed(absent, "does not compute the common step"))
        if (contrary := self._meeting.contrary) is not None:
            raise RankError(*self._blamed(contrary, "computes something else"))

    def _blamed(self, rank: int, what: str) -> tuple[int, str]:
        """A rank's index in its engine, and what it does, with the engine."""
        engine, own = divmod(rank, self.place.ranks_of_engine)
        return own, f"that of engine {engine}, which has a part of the experts, {what}"


def _rows(own: ExpertTokens | None, start: int, most: int) -> ExpertTokens | None:
    if own is None or start >= len(own.hidden):
        return None
    return ExpertTokens(*(part[start : start + most] for part in own))


def _take_nothing(_: int) -> None:
    """An engine without tokens has no results."""


def _joined(parts: list[ExpertTokens]) -> ExpertTokens:
    if len(parts) == 1:
        return parts[0]
    return ExpertTokens(*map(torch.cat, zip(*parts, strict=True)))
