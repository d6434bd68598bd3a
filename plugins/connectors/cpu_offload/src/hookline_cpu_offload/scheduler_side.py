"""Knows which block is in which tier, and orders what is to be moved.

What is known here is what host memory will have once the steps that are planned are
computed. The worker's side does every step's moves in the executor's thread and in the
order of the plans, so no slot is read or written by two steps at once, however many are
planned ahead. Within a step blocks come into slots before loads read slots; a slot that
a load of the step reads is given to no other block by it.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from hookline.clock import Clock, SystemClock
from hookline_cpu_offload.options import OffloadOptions
from hookline_cpu_offload.slots import Slots
from hookline_cpu_offload.steps_ahead import PlannedCopies, StepsAhead
from hookline_cpu_offload.tasks import (
    ON_DISK,
    LoadTask,
    Move,
    Report,
    Spill,
    Tasks,
)
from hookline_cpu_offload.tier_counts import TierCounts
from hookline_kv_transfer import (
    ConnectorMetadata,
    ConnectorRequest,
    KVLayout,
    Load,
    PlannedStep,
    SchedulerCapabilities,
    TierReset,
)
from hookline_metrics.connector_events import (
    MOST_EVENTS,
    TierAllocation,
    TierEvent,
    TierLookup,
)
from hookline_metrics.transfer_stats import TierStats

if TYPE_CHECKING:
    from hookline_shared_storage import RankStores


class SchedulerSide:
    """Decides; touches no block."""

    capabilities = SchedulerCapabilities(
        receives_payloads=True,
        has_tiers=True,
        tells_tier_events=True,
        resets_cache=True,
    )

    def __init__(self, options: OffloadOptions, clock: Clock | None = None) -> None:
        self._options = options
        self._clock = clock or SystemClock()
        self._steps = StepsAhead()
        self._events: deque[TierEvent] = deque(maxlen=MOST_EVENTS)
        self._loads: list[LoadTask] = []
        self._busy: set[int] = set()
        self._store: RankStores | None = None
        self._num_resets = self._told_resets = 0

    def register_kv_layout(self, layout: KVLayout) -> None:
        self._layout = layout
        self._num_slots = self._options.num_slots(layout)
        self._slots = Slots(self._num_slots)
        self._counts = TierCounts(self._options, layout, self._num_slots)
        if self._options.disk is not None:
            from hookline_cpu_offload.disk import open_stores  # noqa: PLC0415

            self._store = open_stores(self._options.disk, layout)

    def get_num_new_matched_tokens(
        self, request: ConnectorRequest, num_computed_tokens: int
    ) -> tuple[int, bool]:
        """Waits for what is on disk; what is in memory is there within the step."""
        size = self._layout.block_size
        first = num_computed_tokens // size
        hashes = request.block_hashes[first : (len(request.token_ids) - 1) // size]
        count, on_disk = self._find(hashes)
        self._counts.asked(request.request_id, len(hashes))
        return count * size, on_disk > 0

    def _find(self, hashes: Sequence[bytes]) -> tuple[int, int]:
        """Returns how many leading blocks there are, and how many of them on disk."""
        now, started_at = self._clock.now, self._clock.now()
        count = on_disk = disk_ns = num_asked = 0
        for block_hash in hashes:
            if block_hash not in self._slots:
                if self._store is None or self._is_resetting:
                    break
                asked_at = now()
                is_there = self._store.has(block_hash)
                disk_ns += now() - asked_at
                num_asked += 1
                if not is_there:
                    break
                on_disk += 1
            count += 1
        if hashes:
            self._events.append(TierLookup("cpu", now() - started_at - disk_ns))
        if num_asked:
            self._events.append(TierLookup("disk", disk_ns))
        return count, on_disk

    def update_state_after_alloc(self, request: ConnectorRequest, load: Load) -> None:
        moves = []
        for block_id, block_hash in zip(load.block_ids, load.block_hashes, strict=True):
            slot = self._slots.find(block_hash)
            moves.append(Move(block_id, ON_DISK if slot is None else slot, block_hash))
        for move in reversed(moves):  # the end of a chain goes before its beginning
            if move.slot != ON_DISK:
                self._slots.touch(move.block_hash)
                self._busy.add(move.slot)
        in_memory = sum(move.slot != ON_DISK for move in moves)
        self._counts.found(request.request_id, in_memory, len(moves) - in_memory)
        self._loads.append(LoadTask(load.transfer_id, moves))

    def build_connector_meta(self, step: PlannedStep) -> ConnectorMetadata | None:
        loads, self._loads = self._loads, []
        for block_hash in step.spoilt:
            self._slots.drop(block_hash)
        spills, takes = [], []
        # Of more than there is room for, the beginnings of chains: they come last.
        evicted = step.evicted[-self._num_slots :]
        dropped = len(step.evicted) - len(evicted)
        for each in evicted:
            if each.block_hash in self._slots:
                self._slots.touch(each.block_hash)
                continue
            assigned = self._slots.assign(each.block_hash, self._busy)
            if assigned is None:
                dropped += 1
                continue
            self._busy.add(assigned.slot)
            takes.append(Move(each.block_id, assigned.slot, each.block_hash))
            if assigned.victim is not None:
                self._counts.evicted()
                if self._store is not None and not self._store.has(assigned.victim):
                    spills.append(Spill(assigned.slot, assigned.victim))
        self._busy.clear()
        self._counts.dropped(dropped)
        self._note_store("cpu", len(takes) + dropped)
        self._note_store("disk", len(spills))
        removals = [] if self._store is None else list(step.spoilt)
        is_told = self._told_resets == self._num_resets
        if not loads and not takes and not removals and is_told:
            return None
        self._told_resets = self._num_resets
        number = self._steps.plan(_copies(takes, loads))
        tasks = Tasks(spills, takes, loads, number, self._num_resets, removals)
        return ConnectorMetadata(msgspec.msgpack.encode(tasks))

    def request_finished(
        self,
        request: ConnectorRequest,
        block_ids: Sequence[int],  # noqa: ARG002 - blocks move when they are evicted
        transfer_id: int,  # noqa: ARG002
    ) -> tuple[bool, Mapping[str, object] | None]:
        self._counts.ended(request.request_id)
        return False, None

    def update_connector_output(self, payload: bytes) -> None:
        """Forgets blocks that are missing from their slots, so they are kept again."""
        report = msgspec.msgpack.decode(payload, type=Report)
        for slot, block_hash in report.lost:
            self._slots.forget(block_hash, slot)
        self._counts.report = report
        self._steps.done(report.number)
        self._events += report.ended

    def reset_cache(self, *, external: bool | None) -> Mapping[str, TierReset]:
        """Empties both tiers; other engines that share the disk lose theirs, too.

        Neither is meant to be shared, so what is not said is a yes.
        """
        if external is False:
            return dict.fromkeys(self.tier_stats(), TierReset.KEPT)
        self._slots.clear()
        tiers = {"cpu": TierReset.RESET}
        if self._store is not None:
            self._num_resets += 1
            is_empty = self._store.empty()
            tiers["disk"] = TierReset.RESET if is_empty else TierReset.FAILED
        return tiers

    def tier_stats(self) -> Mapping[str, TierStats]:
        return self._counts.stats(len(self._slots), self._steps.total())

    def take_tier_events(self) -> Sequence[TierEvent]:
        events = tuple(self._events)
        self._events.clear()
        return events

    def is_moving(self) -> bool:
        """Whether the disk is written to or read."""
        disk = self._counts.report.disk
        return disk.storing + disk.loading > 0

    def shutdown(self) -> None:
        """Has nothing to give back."""

    @property
    def _is_resetting(self) -> bool:
        """Whether blocks from before a reset may still be written to the disk."""
        return self._counts.report.num_resets != self._num_resets

    def _note_store(self, tier: str, num_blocks: int) -> None:
        if num_blocks:
            self._events.append(TierAllocation(tier, num_blocks))


def _copies(takes: Sequence[Move], loads: Sequence[LoadTask]) -> PlannedCopies:
    """Counts the copies of a step to and from host memory."""
    filled = [sum(move.slot != ON_DISK for move in task.moves) for task in loads]
    return PlannedCopies(
        storing=int(bool(takes)),
        loading=sum(count > 0 for count in filled),
        storing_blocks=len(takes),
        loading_blocks=sum(filled),
    )
