"""The shared memory between an executor and its ranks, and which rank gets what."""

import os
from collections.abc import Sequence
from typing import NamedTuple, Self

import msgspec

from hookline.config import ParallelConfig
from hookline_ranks.experts.links import ExpertLinks
from hookline_ranks.processes.expert_counts import ExpertCounts, counts_bytes
from hookline_ranks.processes.ring import RingReader, RingWriter, make_bell, ring_bytes
from hookline_ranks.processes.shared_memory import SharedMemory, make_memory


class StagePath(msgspec.Struct, frozen=True, kw_only=True):
    """The way from a rank of a stage to its neighbour in the next, as descriptors.

    Attributes:
        ring: Memory of the ring with a message for each step.
        bell: The neighbour's bell of this ring.
        states: Memory of the hidden states.
    """

    ring: int
    bell: int
    states: int

    @property
    def memory(self) -> tuple[int, ...]:
        """Descriptors of its memory."""
        return self.ring, self.states

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Everything to inherit."""
        return *self.memory, self.bell


class RankLinks(msgspec.Struct, frozen=True, kw_only=True):
    """The links of one rank, as descriptors that it inherits.

    Attributes:
        rank: Index of the rank.
        world_size: Number of ranks.
        output_rank: The rank that samples and reports.
        orders: Memory of the ring of orders.
        orders_bell: The rank's bell of this ring.
        answers: Memory of the ring of the rank's own answers.
        answers_bell: The executor's bell of this ring.
        tokens: Memory of the ring of sampled tokens.
        token_bells: All followers' bells of this ring, in the order of ranks.
        group: Memory in which the ranks of a stage exchange partial results.
        before: Path from the stage before; None in the first one.
        after: Path to the next stage; None in the last one.
        expert_counts: Memory of what experts have computed; None if ranks have parts of
            all of them, or several engines share them.
        experts: The engine's links to others that share its experts; None without any.
    """

    rank: int
    world_size: int
    output_rank: int
    orders: int
    orders_bell: int
    answers: int
    answers_bell: int
    tokens: int
    token_bells: tuple[int, ...]
    group: int
    before: StagePath | None = None
    after: StagePath | None = None
    expert_counts: int | None = None
    experts: ExpertLinks | None = None

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Everything to inherit."""
        paths = [each for each in (self.before, self.after) if each is not None]
        counts = () if self.expert_counts is None else (self.expert_counts,)
        experts = () if self.experts is None else (self.experts.tokens,)
        return (
            *(descriptor for path in paths for descriptor in path.descriptors),
            *counts,
            *experts,
            self.orders,
            self.orders_bell,
            self.answers,
            self.answers_bell,
            self.tokens,
            self.group,
            *self.token_bells,
        )

    @property
    def is_output(self) -> bool:
        """Whether this rank samples and reports."""
        return self.rank == self.output_rank

    @property
    def follower(self) -> int:
        """Index of this rank among those that follow the output rank, in its stage.

        It is negative for ranks of earlier stages, which learn tokens from plans.
        """
        return self.rank - self.output_rank - 1


class ExecutorLinks:
    """An executor's ends of all links.

    Attributes:
        orders: Writes to all ranks.
        answers: Reads what each rank answers, by rank.
        expert_counts: Reads what each rank's experts have computed; None if ranks have
            parts of all of them, or several engines share them.
    """

    def __init__(
        self, parallel: ParallelConfig, experts: ExpertLinks | None = None
    ) -> None:
        """Makes the memory and the bells.

        Args:
            parallel: Numbers of ranks.
            experts: The engine's links to others that share its experts.
        """
        world = parallel.world_size
        orders = _Ring.make(world)
        answers = [_Ring.make(1) for _ in range(world)]
        tokens = _Ring.make(parallel.tensor_parallel_size - 1)
        stages = _StageMemory(parallel)
        rings = [orders, *answers, tokens]
        self._memory = [each.memory for each in rings]
        self._unnamed = stages.memory
        self._bells = [*(bell for each in rings for bell in each.bells), *stages.bells]
        self.orders = RingWriter(orders.memory, orders.bells)
        self.answers: Sequence[RingReader] = [
            RingReader(each.memory, each.bells[0]) for each in answers
        ]
        self.expert_counts: ExpertCounts | None = None
        counts = None
        if parallel.enable_expert_parallel and experts is None:
            self._memory.append(shared := SharedMemory(counts_bytes(world)))
            self.expert_counts, counts = ExpertCounts(shared), shared.descriptor
        self.ranks: Sequence[RankLinks] = [
            stages.links_of(
                rank,
                orders=orders,
                answers=answers[rank],
                tokens=tokens,
                expert_counts=counts,
                experts=experts,
            )
            for rank in range(world)
        ]

    def close_inherited(self) -> None:
        """Closes what only ranks need, once all of them have been started."""
        for memory in self._memory:
            memory.close_descriptor()
        while self._unnamed:
            os.close(self._unnamed.pop())

    def close(self) -> None:
        """Closes the bells; nobody may write or read any more."""
        self.close_inherited()
        while self._bells:
            os.close(self._bells.pop())


class _Ring(NamedTuple):
    """A ring's memory, and a bell for each of its readers, in their order."""

    memory: SharedMemory
    bells: tuple[int, ...]

    @classmethod
    def make(cls, readers: int) -> Self:
        bells = tuple(make_bell() for _ in range(readers))
        return cls(SharedMemory(ring_bytes(readers)), bells)


class _StageMemory:
    """What the ranks of pipeline stages share, and the executor does not map."""

    def __init__(self, parallel: ParallelConfig) -> None:
        """Makes a group's memory for each stage, and paths between the stages."""
        self._parallel = parallel
        self._size = parallel.tensor_parallel_size
        self._groups = [make_memory() for _ in range(parallel.pipeline_parallel_size)]
        self._paths = [
            StagePath(ring=make_memory(), bell=make_bell(), states=make_memory())
            for _ in range(parallel.world_size - self._size)
        ]

    @property
    def memory(self) -> list[int]:
        """All descriptors of memory."""
        paths = (each for path in self._paths for each in path.memory)
        return [*self._groups, *paths]

    @property
    def bells(self) -> list[int]:
        """The bells of all paths."""
        return [path.bell for path in self._paths]

    def links_of(
        self,
        rank: int,
        *,
        orders: _Ring,
        answers: _Ring,
        tokens: _Ring,
        expert_counts: int | None,
        experts: ExpertLinks | None,
    ) -> RankLinks:
        """Returns all links of a rank, those between stages included.

        Args:
            rank: Index of the rank.
            orders: The ring of orders.
            answers: The ring of the rank's own answers.
            tokens: The ring of sampled tokens.
            expert_counts: Memory of what experts have computed.
            experts: The engine's links to others that share its experts.
        """
        first_of_last = self._parallel.world_size - self._size
        return RankLinks(
            rank=rank,
            world_size=self._parallel.world_size,
            output_rank=self._parallel.output_rank,
            orders=orders.memory.descriptor,
            orders_bell=orders.bells[rank],
            answers=answers.memory.descriptor,
            answers_bell=answers.bells[0],
            tokens=tokens.memory.descriptor,
            token_bells=tokens.bells,
            group=self._groups[rank // self._size],
            before=self._paths[rank - self._size] if rank >= self._size else None,
            after=self._paths[rank] if rank < first_of_last else None,
            expert_counts=expert_counts,
            experts=experts,
        )
