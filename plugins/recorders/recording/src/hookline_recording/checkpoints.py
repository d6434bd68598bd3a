"""Checkpoints: what a scheduler knows, from which a replay can begin.

They are written between two steps, on the engine's thread, at intervals: what a pool of
blocks costs to copy is little beside that. None is written while the engine sleeps or
owes a reply, while choices queue in lines, with a pipeline, or with an extension whose
state is not known.
"""

from array import array
from collections import deque
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from hookline.clock import NANOSECONDS
from hookline.config.extensions import DRAFTING, GRAMMARS
from hookline.pooling import POOLING
from hookline.request import Request, RequestStatus
from hookline.step import StepPlan
from hookline_recording.checkpoint_schema import Checkpoint, InFlight, LiveRequest
from hookline_recording.hashing import DIGEST_BYTES, PromptHasher
from hookline_recording.schema import Arrived

if TYPE_CHECKING:  # it is only read
    from hookline.engine.scheduler.scheduler import Scheduler

INTERVAL = 10 * NANOSECONDS
"""Least time between two checkpoints, ns."""
_STATELESS = (DRAFTING, GRAMMARS, POOLING)
_BLOCK_BYTES = 2 * 4 + DIGEST_BYTES


@runtime_checkable
class CheckpointedSide(Protocol):
    """A scheduler's side of an extension that a replay can begin with."""

    def checkpoint(self) -> object:
        """Returns what it knows besides requests, in plain data."""

    def restore(self, state: object) -> None:
        """Takes what `checkpoint` returned, once the requests are there.

        Raises:
            ValueError: It is something else.
        """


class Checkpoints:
    """Makes the checkpoints of one engine."""

    def __init__(
        self, scheduler: "Scheduler", hasher: PromptHasher, most_bytes: int
    ) -> None:
        """Begins without one.

        Args:
            scheduler: What they are of.
            hasher: Salts hashes.
            most_bytes: Most bytes of the pool's part; with more there is none.
        """
        self._scheduler, self._hasher = scheduler, hasher
        sides = scheduler.extensions.sides
        self._sides = {
            name: side
            for name, side in sides.items()
            if isinstance(side, CheckpointedSide)
        }
        num_blocks = scheduler.cache.pool.num_blocks
        self._is_possible = num_blocks * _BLOCK_BYTES <= most_bytes and all(
            name in self._sides or name in _STATELESS for name in sides
        )
        self._salted: list[tuple[bytes, bytes] | None] = [None] * num_blocks
        self._due_at: int | None = None
        self._in_flight: deque[tuple[StepPlan, int]] = deque()
        self.owes_reply = False

    def planned(self, plan: StepPlan, at: int) -> None:
        self._in_flight.append((plan, at))

    def ended(self) -> None:
        """The result of the oldest step in flight is there."""
        if self._in_flight:
            self._in_flight.popleft()

    def is_due(self, at: int) -> bool:
        """Returns whether it is time for a checkpoint, which there may be none of."""
        if self._due_at is None:
            self._due_at = at + INTERVAL
        return self._is_possible and at >= self._due_at

    def make(
        self, at: int, arrived: dict[int, Arrived], gates: dict[int, str]
    ) -> Checkpoint | None:
        """Returns a checkpoint; None if none is possible now.

        Args:
            at: Time, ns.
            arrived: Facts of the live requests.
            gates: Gates that requests wait at, by request id.
        """
        scheduler, lifecycle = self._scheduler, self._scheduler.lifecycle
        if scheduler.is_held or self.owes_reply:
            return None
        live = list(scheduler.requests.values())
        if any(_is_odd(each) or each.request_id not in arrived for each in live):
            return None
        self._due_at = at + INTERVAL
        running = lifecycle.queues.running
        free, cached, hashes, proven = self._pool()
        return Checkpoint(
            at,
            scheduler.steps,
            scheduler.last_ended,
            lifecycle.arrivals,
            [self._live(each, gates.get(each.request_id, "")) for each in live],
            [each.request_id for each in running.requests],
            list(running.released),
            [
                InFlight(
                    plan.step, list(plan.request_ids), list(plan.num_tokens), begun
                )
                for plan, begun in self._in_flight
            ],
            free,
            cached,
            hashes,
            proven,
            {name: side.checkpoint() for name, side in self._sides.items()},
        )

    def _live(self, request: Request, gate: str) -> LiveRequest:
        lifecycle = self._scheduler.lifecycle
        request_id = request.request_id
        return LiveRequest(
            request_id,
            request.sequence,
            request.queued_at,
            str(request.status),
            request.num_output_tokens,
            request.num_computed_tokens,
            request.max_computed_tokens,
            request.num_pending_tokens,
            request.num_drafts,
            request.num_cached_tokens,
            list(request.block_ids),
            request.num_hashed_blocks,
            request.rank,
            request.is_follower,
            request.last_step,
            gate,
            self._hasher.of_output(request),
            len(lifecycle.drafts.get(request_id, ())),
            request_id in lifecycle.queues.preempted,
        )

    def _pool(self) -> tuple[bytes, bytes, bytes, bytes]:
        """Returns free blocks, cached blocks, their hashes, and proven blocks."""
        pool, salted, digest = self._scheduler.cache.pool, self._salted, self._hasher
        cached, hashes, proven = array("I"), [], array("I")
        for block_id, block in enumerate(pool.blocks):
            if block.is_proven:
                proven.append(block_id)
            if (own := block.block_hash) is None:
                continue
            known = salted[block_id]
            if known is None or known[0] is not own:
                known = salted[block_id] = own, digest.digest(own)
            cached.append(block_id)
            hashes.append(known[1])
        free = array("I", pool.free_blocks)
        return free.tobytes(), cached.tobytes(), b"".join(hashes), proven.tobytes()


def _is_odd(request: Request) -> bool:
    """Whether a request is in a state that is not kept: in a line, or in transfer."""
    is_waiting = request.status in (RequestStatus.WAITING, RequestStatus.PREEMPTED)
    is_in_line = is_waiting and (request.rank is None or request.is_follower)
    return is_in_line or request.is_provisional or bool(request.num_doomed_results)


def numbers(data: bytes) -> list[int]:
    """Reads numbers of four bytes.

    Raises:
        ValueError: It is no whole number of them.
    """
    return array("I", data).tolist()
