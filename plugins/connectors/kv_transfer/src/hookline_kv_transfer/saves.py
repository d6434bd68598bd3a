"""Saves of KV in progress: their blocks and deadlines."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from hookline.engine.kv_cache.manager import KVCacheManager
from hookline.request import Request
from hookline_kv_transfer.guard import ConnectorGuard, view_of
from hookline_kv_transfer.orders import EndedTransfer, Save
from hookline_kv_transfer.transfer_ledger import TransferLedger
from hookline_kv_transfer.transfer_outbox import Outbox
from hookline_kv_transfer.transfer_state import (
    REMOTE_ADAPTER,
    REMOTE_CACHED,
    TransferStates,
)
from hookline_metrics.transfer_failures import Reason, Stage

_MOST_RELEASED = 1024
"""Names of released transfers that are remembered."""


@dataclass(frozen=True, slots=True)
class OpenSave:
    """Blocks of an ended request that are kept until they are saved.

    Attributes:
        save: The order that the worker got; it references its blocks.
        started_at: Start time, monotonic ns.
        name: The client's `transfer_id`; None without one.
    """

    save: Save
    started_at: int
    name: str | None = None


class Saves:
    """The saves of one scheduler."""

    def __init__(
        self,
        cache: KVCacheManager,
        guard: ConnectorGuard,
        outbox: Outbox,
        ledger: TransferLedger,
        states: TransferStates,
        *,
        timeout_ns: int,
        grace_ns: int,
        keeps: bool,
    ) -> None:
        """Creates an empty set.

        Args:
            cache: Owns the blocks.
            guard: The connector.
            outbox: Takes the orders, and the blocks of cancelled saves.
            ledger: Counts.
            states: The requests' states.
            timeout_ns: Maximum time for which blocks are kept, ns.
            grace_ns: Time after the start and after each read for which `reclaim`
                leaves them alone, ns.
            keeps: Whether any blocks are kept.
        """
        self._cache = cache
        self._guard = guard
        self._outbox = outbox
        self._ledger = ledger
        self._states = states
        self._timeout_ns = timeout_ns
        self._grace_ns = grace_ns
        self._keeps = keeps
        self._open: dict[int, OpenSave] = {}
        self._read_at: dict[int, int] = {}
        self._released: dict[str, None] = {}

    def __iter__(self) -> Iterator[OpenSave]:
        return iter(self._open.values())

    def __len__(self) -> int:
        return len(self._open)

    def finish(self, request: Request, now: int) -> dict[str, object] | None:
        """Notifies the connector of a request's end; keeps the blocks to be saved.

        Returns:
            `kv_transfer_params` for the client, or None.
        """
        computed, state = request.num_computed_tokens, self._states.of(request)
        blocks: tuple[int, ...] = ()
        name = state.transfer_id
        is_released = name is not None and self._released.pop(name, "") is None
        if self._keeps and not request.is_provisional and not is_released:
            self._cache.cache_full_blocks(request, computed)  # for their hashes
            blocks = tuple(request.block_ids[: -(-computed // self._cache.block_size)])
        transfer_id = self._outbox.new_id()
        view = view_of(request, state, computed)
        keeps, params = self._guard.finished(view, blocks, transfer_id)
        if params is not None and params.get("do_remote_prefill") is True:
            params[REMOTE_CACHED] = request.num_cached_tokens or 0
            if request.inner.adapter is not None:
                params[REMOTE_ADAPTER] = request.inner.adapter
        if keeps and blocks:
            self._cache.pool.touch(blocks)
            save = Save(transfer_id, blocks)
            self._open[transfer_id] = OpenSave(save, now, name)
            self._outbox.saves.append(save)
        return params

    def complete(self, ended: EndedTransfer, now: int) -> None:
        """Finishes a save and frees its blocks."""
        if (entry := self._open.pop(ended.transfer_id, None)) is None:
            return
        self._read_at.pop(ended.transfer_id, None)
        self._cache.pool.free(entry.save.block_ids)
        self._ledger.count_save(now - entry.started_at)
        if ended.reason:
            self._ledger.fail(Stage.SAVE, ended.reason)

    def expire(self, now: int) -> None:
        """Cancels saves past their deadline."""
        bound = now - self._timeout_ns
        for entry in list(takewhile(lambda each: each.started_at <= bound, self)):
            save = entry.save
            detail = f"save {save.transfer_id} has not ended"
            self._guard.note(Stage.SAVE, Reason.DEADLINE, detail)
            self._ledger.expired_blocks += len(save.block_ids)
            self._cancel(save)

    def give_up(self, name: str) -> int:
        """Cancels the saves that clients have named so; returns how many blocks.

        If there are none, the next request of this name that ends keeps nothing: its
        client may leave before its end is known here.
        """
        named = [entry.save for entry in self if entry.name == name]
        if not named:
            self._released.pop(name, None)  # it becomes the latest
            self._released[name] = None
            if len(self._released) > _MOST_RELEASED:
                del self._released[next(iter(self._released))]
        for save in named:
            self._cancel(save)
        released = sum(len(save.block_ids) for save in named)
        self._ledger.released_blocks += released
        return released

    def read(self, transfer_ids: Sequence[int], now: int) -> None:
        """Notes that the connector has read blocks of these saves, if they are open."""
        for transfer_id in transfer_ids:
            if transfer_id in self._open:
                self._read_at[transfer_id] = now

    def reclaim(self, num_blocks: int, now: int) -> None:
        """Cancels saves, oldest first, until that many blocks will be free.

        Saves that are young, or were read a short time ago, go on. The blocks are free
        once the worker has closed them; until then nothing else is cancelled for them.
        """
        missing = num_blocks - sum(map(len, self._outbox.closing.values()))
        bound = now - self._grace_ns
        for entry in list(takewhile(lambda each: each.started_at <= bound, self)):
            if missing <= 0:
                return
            save = entry.save
            if self._read_at.get(save.transfer_id, bound) > bound:
                continue
            detail = f"a waiting request needs the blocks of save {save.transfer_id}"
            self._guard.note(Stage.SAVE, Reason.RECLAIMED, detail)
            self._ledger.reclaimed_blocks += len(save.block_ids)
            self._cancel(save)
            missing -= len(save.block_ids)

    def _cancel(self, save: Save) -> None:
        del self._open[save.transfer_id]
        self._read_at.pop(save.transfer_id, None)
        self._outbox.cancel(save.transfer_id, save.block_ids)
