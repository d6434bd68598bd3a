"""Fetches prefixes of waiting requests from a connector."""

from collections.abc import Sequence

from hookline.engine.kv_cache.manager import KVCacheManager
from hookline.engine.scheduler.external_prefix import (
    NO_OFFER,
    NOTHING_BROUGHT,
    FetchedPrefix,
    FetchStart,
    PrefixOffer,
)
from hookline.request import Request
from hookline_kv_transfer.block_changes import BlockChanges
from hookline_kv_transfer.fetch_stages import FetchStages
from hookline_kv_transfer.loads import Loads
from hookline_kv_transfer.remote_kv_gate import RemoteKVGate
from hookline_kv_transfer.saves import Saves
from hookline_kv_transfer.transfer_ledger import TransferLedger
from hookline_kv_transfer.transfer_state import TransferStates


class PrefixFetching:
    """Implements `ExternalPrefix` with the loads of a connector.

    Attributes:
        gate: Readiness gate of requests that wait for loads.
    """

    def __init__(
        self,
        *,
        cache: KVCacheManager,
        gate: RemoteKVGate,
        loads: Loads,
        saves: Saves,
        stages: FetchStages,
        states: TransferStates,
        changes: BlockChanges,
        ledger: TransferLedger,
        may_load: bool,
    ) -> None:
        """Joins the parts.

        Args:
            cache: The KV cache.
            gate: Where requests wait.
            loads: The loads.
            saves: The saves, some of which can be given up.
            stages: Queued requests before and after their loads.
            states: The requests' states.
            changes: Knows which blocks must not be loaded.
            ledger: Counts look-ups.
            may_load: Whether anything is loaded.
        """
        self._cache = cache
        self.gate = gate
        self._loads = loads
        self._saves = saves
        self._stages = stages
        self._states = states
        self._changes = changes
        self._ledger = ledger
        self._may_load = may_load

    def offer(self, request: Request, prefix: Sequence[int]) -> PrefixOffer:
        """Returns the tokens that can be loaded after a prefix."""
        if not self._may_load:
            return NO_OFFER
        offer = self._loads.offer(request, prefix)
        if offer.num_tokens:
            hashes = request.block_hashes[len(prefix) :]
            good = self._changes.num_good(hashes) * self._cache.block_size
            if good < offer.num_tokens:
                offer = PrefixOffer(good, offer.is_async and good > 0)
        self._stages.looked_up(request, will_wait=offer.is_async)
        return offer

    def fetch(
        self, request: Request, prefix: Sequence[int], offer: PrefixOffer, now: int
    ) -> FetchStart:
        """Begins an asynchronous load."""
        start = self._loads.wait_for(request, prefix, offer, now)
        if start is not FetchStart.NO_ROOM:
            self._stages.begun(request)
        return start

    def fetch_in_step(
        self, request: Request, prefix: Sequence[int], offer: PrefixOffer, now: int
    ) -> bool:
        """Begins a synchronous load."""
        return self._loads.load_in_step(request, prefix, offer, now)

    def admitted(self, request: Request) -> FetchedPrefix:
        """Returns how many of an admitted request's tokens the connector loaded."""
        self._stages.left(request)
        state = self._states.of(request)
        brought, state.external_tokens = state.external_tokens, range(0)
        waited, state.waited = state.waited, None
        end = min(request.num_computed_tokens, brought.stop)
        found = max(0, end - brought.start)
        moved = state.num_moved(range(brought.start, end))
        if found and not request.is_provisional:
            state.may_load = True  # should it be preempted
        is_first = request.num_cached_tokens is None
        reads = self._cache.is_caching and request.reads_prefix_cache
        if self._may_load and is_first and reads:
            local = request.num_computed_tokens - found
            proven = 0 if request.is_provisional else found - moved
            self._ledger.transferred_tokens += 0 if request.is_provisional else moved
            queried = request.num_prompt_tokens - local
            self._ledger.count_lookup(queried, proven, state.tier_tokens)
        if not found and waited is None:
            return NOTHING_BROUGHT
        return FetchedPrefix(found, moved, waited)

    def reclaim(self, num_blocks: int, now: int) -> None:
        """Gives up saves for a request that lacks this many blocks."""
        self._saves.reclaim(num_blocks, now)
