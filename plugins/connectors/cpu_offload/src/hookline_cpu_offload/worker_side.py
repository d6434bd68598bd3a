"""Moves blocks between the cache, host memory and disk."""

import threading
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from hookline.clock import Clock, SystemClock
from hookline_cpu_offload.arena import Arena
from hookline_cpu_offload.moves import TierMoves
from hookline_cpu_offload.options import OffloadOptions
from hookline_cpu_offload.tasks import (
    ON_DISK,
    LoadTask,
    Move,
    Report,
    Spill,
    Tasks,
)
from hookline_kv_transfer import (
    ConnectorMetadata,
    FailedTransfer,
    TransferClosedError,
    TransferResults,
    WorkerCapabilities,
)
from hookline_kv_transfer.blocks import KVBlocks

if TYPE_CHECKING:
    from hookline_cpu_offload.disk import Disk

_MOST_BLOCKS = 64
"""Blocks copied by one call, few enough for a layer to fit into the CPU's cache."""


class WorkerSide:
    """Copies to and from host memory in the step's thread, reads files in others.

    All is copied before the forward pass, so no layer needs to wait.
    """

    capabilities = WorkerCapabilities(
        needs_layers=False, works_in_ranks=True, works_on_machines=True
    )

    def __init__(self, options: OffloadOptions, clock: Clock | None = None) -> None:
        self._options = options
        self._clock = clock or SystemClock()
        self._disk: Disk | None = None
        self._lock = threading.Lock()
        self._loaded: list[int] = []
        self._failed: list[FailedTransfer] = []
        self._lost: list[tuple[int, bytes]] = []
        self._number = self._num_resets = 0
        self._reported = Report()

    def register_kv_caches(self, blocks: KVBlocks) -> None:
        layout = blocks.layout
        self._blocks = blocks
        self._moves = TierMoves("cpu", layout.total_bytes, self._clock)
        self._arena = Arena(layout, self._options.num_slots(layout))
        if self._options.disk is not None:
            from hookline_cpu_offload.disk import Disk  # noqa: PLC0415

            self._disk = Disk(self._options.disk, blocks, self._clock)

    def start_load_kv(self, metadata: ConnectorMetadata) -> None:
        tasks = msgspec.msgpack.decode(metadata.payload, type=Tasks)
        try:
            if self._disk is not None and tasks.num_resets != self._num_resets:
                self._disk.empty()
            self._num_resets = tasks.num_resets
            if tasks.spills:
                self._spill(tasks.spills)
            if tasks.takes:
                self._store(tasks.takes)
            if tasks.removals and self._disk is not None:
                self._disk.remove(tasks.removals)
            for task in tasks.loads:
                self._load(task)
        finally:
            self._number = tasks.number

    def wait_for_layer_load(self, layer_index: int) -> None:
        """Does nothing: host memory is copied before the forward pass."""

    def save_kv_layer(self, layer_index: int) -> None:
        """Blocks are kept when they are evicted, not when they are written."""

    def wait_for_save(self) -> None:
        """Files are written in the background."""

    def get_finished(self) -> TransferResults:
        with self._lock:
            loaded, self._loaded = self._loaded, []
            failed, self._failed = self._failed, []
            lost, self._lost = self._lost, []
        report = self._report(lost)
        payload = b""
        if report != self._reported:
            payload = msgspec.msgpack.encode(report)
            self._reported = msgspec.structs.replace(report, lost=[], ended=[])
        incidents = {} if self._disk is None else self._disk.take_incidents()
        return TransferResults(
            loaded=loaded, failed=failed, incidents=incidents, payload=payload
        )

    def shutdown(self) -> None:
        """Waits for reads in progress and all pending writes."""
        if self._disk is not None:
            self._disk.close()
        self._arena.close()
        del self._arena

    # -- down --------------------------------------------------------------------

    def _spill(self, spills: list[Spill]) -> None:
        """Queues the old content of slots for writing to disk."""
        assert self._disk is not None
        good = [each for each in spills if self._arena.holds(*_place(each))]
        slots = [each.slot for each in good]
        self._disk.write(
            [each.block_hash for each in good],
            partial(self._arena.copy, slots),
            len(good) * self._blocks.layout.total_bytes,
        )

    def _store(self, moves: list[Move]) -> None:
        """Copies a step's evicted blocks into slots."""
        ordered_at = self._moves.count_ordered("in", len(moves))
        done = 0
        try:
            for start in range(0, len(moves), _MOST_BLOCKS):
                chosen = moves[start : start + _MOST_BLOCKS]
                self._take(chosen)
                done += len(chosen)
        finally:
            self._moves.count_ended("in", len(moves), moved=done, ordered_at=ordered_at)

    def _take(self, moves: list[Move]) -> None:
        """Copies some evicted blocks into slots."""
        block_ids = [move.block_id for move in moves]
        slots = [move.slot for move in moves]
        self._arena.open(slots)
        try:
            for layer in range(self._blocks.layout.num_layers):
                target = self._arena.layers[layer]
                self._blocks.copy_out(layer, block_ids, target, slots)
        except BaseException:
            self._lose(moves)
            raise
        self._arena.settle(slots, [move.block_hash for move in moves])

    def _lose(self, moves: list[Move]) -> None:
        with self._lock:
            self._lost += [(move.slot, move.block_hash) for move in moves]

    # -- up ----------------------------------------------------------------------

    def _load(self, task: LoadTask) -> None:
        """Copies blocks from slots, and starts reading the others from disk.

        Blocks after the first missing one are not loaded.
        """
        moves = task.moves
        lost = [move for move in moves if not self._is_there(move)]
        good = moves.index(lost[0]) if lost else len(moves)
        in_memory = [move for move in moves[:good] if move.slot != ON_DISK]
        on_disk = [at for at in range(good) if moves[at].slot == ON_DISK]
        self._lose(lost)
        if (in_memory or lost) and not self._fill(
            task.transfer_id, in_memory, is_whole=not lost
        ):
            return  # it was given up before it began
        if on_disk:
            assert self._disk is not None
            self._disk.read(
                task.transfer_id,
                [moves[at].block_id for at in on_disk],
                [moves[at].block_hash for at in on_disk],
                partial(self._read_ended, task, on_disk, good),
            )
        else:
            self._say(task, good, "missing")

    def _is_there(self, move: Move) -> bool:
        if move.slot == ON_DISK:
            return self._disk is not None
        return self._arena.holds(*_place(move))

    def _fill(self, transfer_id: int, moves: list[Move], *, is_whole: bool) -> bool:
        """Copies a load's slots into blocks; returns False if the load is closed.

        Args:
            transfer_id: The load.
            moves: Its blocks that are in their slots.
            is_whole: Whether these are all that should be.
        """
        ordered_at = self._moves.count_ordered("out", len(moves))
        done = 0
        try:
            for start in range(0, len(moves), _MOST_BLOCKS):
                chosen = moves[start : start + _MOST_BLOCKS]
                self._give(transfer_id, chosen)
                done += len(chosen)
        except TransferClosedError:
            return False
        finally:
            self._moves.count_ended(
                "out",
                len(moves),
                moved=done,
                ordered_at=ordered_at,
                is_good=is_whole and done == len(moves),
            )
        return True

    def _give(self, transfer_id: int, moves: list[Move]) -> None:
        """Copies some slots into blocks."""
        block_ids = [move.block_id for move in moves]
        slots = [move.slot for move in moves]
        for layer in range(self._blocks.layout.num_layers):
            source = self._arena.layers[layer]
            self._blocks.copy_in(transfer_id, layer, block_ids, source, slots)

    def _read_ended(
        self, task: LoadTask, on_disk: list[int], good: int, read: int, reason: str
    ) -> None:
        """Reports the end of a disk read; called in a reader thread."""
        place = on_disk[read] if read < len(on_disk) else good
        self._say(task, place, reason or "missing")

    def _say(self, task: LoadTask, good: int, reason: str) -> None:
        with self._lock:
            if good == len(task.moves):
                self._loaded.append(task.transfer_id)
            else:
                self._failed.append(FailedTransfer(task.transfer_id, reason, good))

    # -- parts -------------------------------------------------------------------

    def _report(self, lost: list[tuple[int, bytes]]) -> Report:
        totals, ended = self._moves.collect()
        if (disk := self._disk) is None:
            return Report(lost, ended, number=self._number, cpu=totals)
        on_disk, ended_there = disk.take_moves()
        return Report(
            lost,
            [*ended, *ended_there],
            number=self._number,
            cpu=totals,
            disk=on_disk,
            disk_blocks=disk.num_blocks,
            disk_bytes=disk.num_bytes,
            num_resets=self._num_resets,
        )


def _place(of: Move | Spill) -> tuple[int, bytes]:
    return of.slot, of.block_hash
