"""The shared memory between an executor and its ranks, and which rank gets what."""

import os
from collections.abc import Sequence

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
        bells = [make_bell() for _ in range(world)]
        answer_bells = [make_bell() for _ in range(world)]
        size = parallel.tensor_parallel_size
        token_bells = tuple(make_bell() for _ in range(size - 1))
        orders = SharedMemory(ring_bytes(world))
        answers = [SharedMemory(ring_bytes(1)) for _ in range(world)]
        tokens = SharedMemory(ring_bytes(size - 1))
        self.orders = RingWriter(orders, bells)
        self.answers: Sequence[RingReader] = [
            RingReader(*each) for each in zip(answers, answer_bells, strict=True)
        ]
        groups = [make_memory() for _ in range(parallel.pipeline_parallel_size)]
        self._memory = [orders, *answers, tokens]
        self.expert_counts: ExpertCounts | None = None
        counts = None
        if parallel.enable_expert_parallel and experts is None:
            self._memory.append(shared := SharedMemory(counts_bytes(world)))
            self.expert_counts, counts = ExpertCounts(shared), shared.descriptor
        paths = [
            StagePath(ring=make_memory(), bell=make_bell(), states=make_memory())
            for _ in range(world - size)
        ]
        self._unnamed = [*groups, *(each for path in paths for each in path.memory)]
        path_bells = [path.bell for path in paths]
        self._bells = [*bells, *answer_bells, *token_bells, *path_bells]
        self.ranks: Sequence[RankLinks] = [
            RankLinks(
                rank=rank,
                world_size=world,
                output_rank=parallel.output_rank,
                orders=orders.descriptor,
                orders_bell=bells[rank],
                answers=answers[rank].descriptor,
                answers_bell=answer_bells[rank],
                tokens=tokens.descriptor,
                token_bells=token_bells,
                group=groups[rank // size],
                before=paths[rank - size] if rank >= size else None,
                after=paths[rank] if rank < world - size else None,
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
