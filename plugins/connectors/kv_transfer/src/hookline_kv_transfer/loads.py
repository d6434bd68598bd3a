"""Loads of KV in progress: their blocks, requests and deadlines."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from hookline.engine.kv_cache.manager import KVCacheManager
from hookline.engine.scheduler.external_prefix import NO_OFFER, FetchStart, PrefixOffer
from hookline.request import Request, RequestStatus
from hookline_kv_transfer.guard import ConnectorGuard, view_of
from hookline_kv_transfer.messages import Load
from hookline_kv_transfer.orders import EndedTransfer
from hookline_kv_transfer.transfer_ledger import TransferLedger
from hookline_kv_transfer.transfer_outbox import Outbox
from hookline_kv_transfer.transfer_state import TransferStates
from hookline_metrics.transfer_failures import Reason, Stage
from hookline_metrics.transfer_stats import KVLoad, TierStats


@dataclass(frozen=True, slots=True)
class LoadEnd:
    """Outcome of a load, for a live request.

    Attributes:
        request: The request.
        reason: Why the load failed; empty if all blocks were loaded.
        lost_tokens: Number of tokens that were not loaded.
        spoilt_tokens: Number of tokens computed from blocks that were not loaded.
    """

    request: Request
    reason: str = ""
    lost_tokens: int = 0
    spoilt_tokens: int = 0


@dataclass(frozen=True, slots=True)
class OpenLoad:
    """A load in progress.

    Attributes:
        load: The order that the worker got.
        request: The request; it may have ended if the load is synchronous.
        first_block: Index in the request of the first loaded block.
        held: Blocks that the load references; empty if it is synchronous.
        started_at: Start time, monotonic ns.
        is_first: Whether the request was never admitted before.
    """

    load: Load
    request: Request
    first_block: int
    held: Sequence[int]
    started_at: int
    is_first: bool


class Loads:
    """The loads of one scheduler.

    Blocks of an asynchronous load belong to the load: its request has none while it
    waits, and finds them in the prefix cache afterwards. Those of a synchronous load
    belong to the request, which is in the batch; they are cached when the load ends.
    """

    def __init__(
        self,
        cache: KVCacheManager,
        guard: ConnectorGuard,
        outbox: Outbox,
        ledger: TransferLedger,
        states: TransferStates,
        *,
        timeout_ns: int,
    ) -> None:
        self._cache = cache
        self._guard = guard
        self._outbox = outbox
        self._ledger = ledger
        self._states = states
        self._timeout_ns = timeout_ns
        self._open: dict[int, OpenLoad] = {}
        self._outdated: set[int] = set()

    def __iter__(self) -> Iterator[OpenLoad]:
        return iter(self._open.values())

    def __len__(self) -> int:
        return len(self._open)

    def offer(self, request: Request, prefix: Sequence[int]) -> PrefixOffer:
        """Looks up the tokens after a waiting request's prefix in the connector."""
        size = self._cache.block_size
        room = (request.num_tokens - 1) // size - len(prefix)
        state = self._states.of(request)
        if (
            room < 1
            or not state.may_load
            or not state.is_of_adapter(request.inner.adapter)
            or not (self._cache.is_caching and request.reads_prefix_cache)
        ):
            return NO_OFFER
        computed = len(prefix) * size
        view = view_of(request, state, computed)
        found, is_async = self._guard.matched_tokens(view, computed)
        blocks = min(found // size, room)
        return PrefixOffer(blocks * size, is_async) if blocks else NO_OFFER

    def wait_for(
        self, request: Request, prefix: Sequence[int], offer: PrefixOffer, now: int
    ) -> FetchStart:
        """Reserves blocks for a waiting request and starts loading them."""
        blocks = self._cache.reserve(
            request, prefix, offer.num_tokens // self._cache.block_size
        )
        if blocks is None:
            return FetchStart.NO_ROOM
        held = (*prefix, *blocks)
        load = self._new_load(request, len(prefix), blocks, is_async=True)
        if self._begin(request, load, len(prefix), held, now):
            state = self._states.of(request)
            began, _ = state.waited or (now, 0)
            state.waited = (began, 0)
            return FetchStart.BEGUN
        self._cache.pool.free(held)
        return FetchStart.REFUSED

    def load_in_step(
        self, request: Request, prefix: Sequence[int], offer: PrefixOffer, now: int
    ) -> bool:
        """Loads an admitted request's external tokens in the step being planned.

        Returns:
            False if the connector fails; the request's blocks are then freed again.
        """
        first, count = len(prefix), offer.num_tokens // self._cache.block_size
        blocks = request.block_ids[first : first + count]
        load = self._new_load(request, first, blocks, is_async=False)
        if self._begin(request, load, first, (), now):
            request.is_provisional = True
            self._states.of(request).external_tokens = self._range(first, count)
            return True
        # Nothing may be cached: the blocks are empty.
        request.num_computed_tokens = first * self._cache.block_size
        self._cache.free(request)
        return False

    def forget(self, request: Request) -> None:
        """Cancels the load that a request waits for."""
        for entry in list(self):
            if entry.request is request and entry.load.is_async:
                self._ledger.fail(Stage.LOAD, Reason.ABORTED)
                self._cancel(entry)

    def outdate(self) -> None:
        """The connector drops its blocks: what is being loaded is not cached here."""
        self._outdated |= self._open.keys()

    def complete(self, ended: EndedTransfer) -> LoadEnd | None:
        """Finishes a load; returns None if it is unknown or its request has ended."""
        if (entry := self._open.pop(ended.transfer_id, None)) is None:
            return None
        load, reason = entry.load, ended.reason
        # The last block of a failed load is invalid, even if reported otherwise.
        loaded = min(ended.num_blocks, len(load.block_ids) - bool(reason))
        assert reason or loaded == len(load.block_ids)
        tokens = loaded * self._cache.block_size
        self._ledger.count_load(KVLoad(ended.nanoseconds, tokens))
        self._guard.load_ended(is_good=not reason)
        if reason:
            self._ledger.fail(Stage.LOAD, reason)
        if load.is_async and load.transfer_id in self._outdated:
            loaded = 0
        if load.is_async:
            self._cache.cache_blocks(
                entry.request, entry.first_block, load.block_ids[:loaded]
            )
            self._cache.pool.free(entry.held)
        end = None
        if entry.request.status is not RequestStatus.FINISHED:
            end = self._end_of(entry, loaded, reason)
        self._outdated.discard(load.transfer_id)
        return end

    def expire(self, now: int) -> list[LoadEnd]:
        """Cancels asynchronous loads past their deadline; others end with a step."""
        bound = now - self._timeout_ns
        old = takewhile(lambda entry: entry.started_at <= bound, self)
        ends = []
        for entry in [each for each in old if each.load.is_async]:
            self._guard.load_ended(is_good=False)
            detail = f"load {entry.load.transfer_id} has not ended"
            self._guard.note(Stage.LOAD, Reason.DEADLINE, detail)
            self._cancel(entry)
            ends.append(self._end_of(entry, 0, Reason.DEADLINE))
        return ends

    def _new_load(
        self, request: Request, first: int, blocks: Sequence[int], *, is_async: bool
    ) -> Load:
        return Load(
            transfer_id=self._outbox.new_id(),
            request_id=request.request_id,
            block_ids=tuple(blocks),
            block_hashes=tuple(request.block_hashes[first : first + len(blocks)]),
            is_async=is_async,
        )

    def _begin(
        self, request: Request, load: Load, first: int, held: Sequence[int], now: int
    ) -> bool:
        state = self._states.of(request)
        state.may_load = False  # again only after it ran and was preempted
        view = view_of(request, state, first * self._cache.block_size)
        before = self._guard.tier_stats()
        if not self._guard.allocated(view, load):
            return False
        state.tier_tokens = _grown(before, self._guard.tier_stats())
        is_first = request.num_cached_tokens is None
        entry = OpenLoad(load, request, first, held, now, is_first)
        self._open[load.transfer_id] = entry
        self._outbox.loads.append(load)
        return True

    def _end_of(self, entry: OpenLoad, loaded: int, reason: str) -> LoadEnd:
        size, request = self._cache.block_size, entry.request
        state, spoilt = self._states.of(request), 0
        end = entry.first_block + len(entry.load.block_ids)
        if entry.load.is_async:
            state.external_tokens = self._range(entry.first_block, loaded)
        else:
            if request.status is RequestStatus.RUNNING:
                self._cache_loaded(entry, loaded)
                spoilt = request.num_computed_tokens - end * size if reason else 0
            if entry.is_first:
                moved = state.num_moved(self._range(entry.first_block, loaded))
                self._ledger.count_hits(loaded * size - moved, state.tier_tokens)
                self._ledger.transferred_tokens += moved
            if not reason:
                request.is_provisional, state.may_load = False, True
        lost = (len(entry.load.block_ids) - loaded) * size
        return LoadEnd(request, reason, lost, spoilt)

    def _cache_loaded(self, entry: OpenLoad, num_blocks: int) -> None:
        """Caches blocks that a running request has got, unless they are outdated."""
        request, end = entry.request, entry.first_block + num_blocks
        if entry.load.transfer_id in self._outdated:
            request.num_hashed_blocks = max(request.num_hashed_blocks, end)
        else:
            self._cache.cache_loaded_blocks(request, end)

    def _cancel(self, entry: OpenLoad) -> None:
        del self._open[entry.load.transfer_id]
        self._outdated.discard(entry.load.transfer_id)
        self._outbox.cancel(entry.load.transfer_id, entry.held)

    def _range(self, first: int, num_blocks: int) -> range:
        size = self._cache.block_size
        return range(first * size, (first + num_blocks) * size)


def _grown(
    before: Mapping[str, TierStats], after: Mapping[str, TierStats]
) -> Mapping[str, int]:
    """Returns the tokens that each tier has found since."""
    return {
        tier: max(0, stats.hit_tokens - before[tier].hit_tokens)
        for tier, stats in after.items()
        if tier in before
    }
