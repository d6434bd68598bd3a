"""Statistics of KV transfers and of a connector's tiers.

They are the sections of the extension `kv_transfer`, which moves the blocks.
"""

from collections.abc import Mapping

import msgspec

from hookline.config.extensions import KV_TRANSFER
from hookline.frozen import EMPTY
from hookline.sections import Section
from hookline.stats.scheduler_stats import PrefixCacheCounts, SchedulerStats
from hookline_metrics.connector_events import ConnectorEvent


class TierStats(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A storage tier of a KV connector: its size now, and totals since the start.

    Attributes:
        blocks: Number of blocks in the tier.
        max_blocks: Capacity in blocks.
        bytes: Size of `blocks` in bytes.
        max_bytes: Capacity in bytes.
        hit_tokens: Total tokens looked up and loaded.
        missed_tokens: Total tokens looked up and not found.
        in_bytes: Total bytes stored in the tier.
        out_bytes: Total bytes loaded from the tier.
        evicted_blocks: Total blocks evicted to make room.
        dropped_blocks: Total blocks that could not be stored.
        in_ns: Total time of storing `in_bytes`, ns, summed over threads.
        out_ns: Total time of loading `out_bytes`, likewise.
        dropped_stores: Total stores of which a block was dropped for lack of room.
        failed_blocks: Total `dropped_blocks` that had room, but whose store failed.
        failed_stores: Total stores that failed.
        failed_loads: Total loads that failed.
        storing: Number of stores in progress.
        loading: Number of loads in progress.
        storing_blocks: Number of blocks being stored.
        loading_blocks: Number of blocks being loaded.
    """

    blocks: int = 0
    max_blocks: int = 0
    bytes: int = 0
    max_bytes: int = 0
    hit_tokens: int = 0
    missed_tokens: int = 0
    in_bytes: int = 0
    out_bytes: int = 0
    evicted_blocks: int = 0
    dropped_blocks: int = 0
    in_ns: int = 0
    out_ns: int = 0
    dropped_stores: int = 0
    failed_blocks: int = 0
    failed_stores: int = 0
    failed_loads: int = 0
    storing: int = 0
    loading: int = 0
    storing_blocks: int = 0
    loading_blocks: int = 0

    def at_rest(self) -> "TierStats":
        """Returns the same content and totals with nothing in progress."""
        return msgspec.structs.replace(
            self, storing=0, loading=0, storing_blocks=0, loading_blocks=0
        )


MOST_TIERS = 8
"""Maximum number of tiers that a connector may report."""


class KVLoad(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A load of a KV connector that ended, successfully or not.

    Attributes:
        nanoseconds: Time since its start; for a synchronous load, the step's delay.
        tokens: Number of tokens whose KV was loaded.
    """

    nanoseconds: int
    tokens: int = 0


class TransferStats(msgspec.Struct, frozen=True, array_like=True):
    """KV transfers: those in progress, and totals since the engine's start.

    Attributes:
        loading: Number of loads in progress.
        saving: Number of saves in progress whose requests have ended.
        closing: Number of cancelled transfers that the worker has not closed yet.
        held_blocks: Number of KV blocks held by transfers and not by requests.
        oldest_load_at: When the oldest load in progress began, in monotonic ns; None
            if there is none.
        oldest_save_at: When the oldest save in progress began, likewise.
        breaker_open: Whether repeated failures have disabled the connector, except for
            trials.
        loads: Total loads that completed or failed, without cancelled ones.
        saves: Total saves that completed or failed after their requests' end.
        load_ns: Total time of `loads`; for synchronous loads the delay of their step.
        save_ns: Total time of `saves`, from the end of their requests.
        loaded_bytes: Total bytes written to KV blocks by the connector.
        saved_bytes: Total bytes read from KV blocks by the connector.
        recomputed_tokens: Total tokens computed because their load failed, or again
            because they depended on one that did.
        expired_blocks: Total blocks that were held for a save until their deadline.
        late_reports: Total reports about transfers that had ended or been cancelled.
        failures: Total failures, by stage and reason.
        tiers: The connector's storage tiers, by name.
        reclaimed_blocks: Total blocks that were held for a save and freed before it,
            because a waiting request needed them.
        hit_source: Where the connector's tokens come from, if all come from one place:
            `host`, `disk` or `p2p`; otherwise empty.
        tier_hits: Total tokens of `external_cache` that were found, by the tier that
            had them; tiers need not tell of all.
        waiting_to_load: Number of queued requests whose load has not begun: the
            connector has their KV but no blocks are free, or their client says that
            another engine has it.
        loaded_waiting: Number of queued requests whose load has ended.
        external_cache: Look-ups in the connector, one per request; what another engine
            has computed for the request is not found in a cache.
        released_blocks: Total blocks that were held for a save and freed before it,
            because their router says that nobody will load them.
        transferred_tokens: Total tokens that other engines have computed for requests,
            one per request, and that were loaded.
    """

    loading: int = 0
    saving: int = 0
    closing: int = 0
    held_blocks: int = 0
    oldest_load_at: int | None = None
    oldest_save_at: int | None = None
    breaker_open: bool = False
    loads: int = 0
    saves: int = 0
    load_ns: int = 0
    save_ns: int = 0
    loaded_bytes: int = 0
    saved_bytes: int = 0
    recomputed_tokens: int = 0
    expired_blocks: int = 0
    late_reports: int = 0
    failures: Mapping[str, Mapping[str, int]] = EMPTY
    tiers: Mapping[str, TierStats] = EMPTY
    reclaimed_blocks: int = 0
    hit_source: str = ""
    tier_hits: Mapping[str, int] = EMPTY
    waiting_to_load: int = 0
    loaded_waiting: int = 0
    external_cache: PrefixCacheCounts = PrefixCacheCounts()
    released_blocks: int = 0
    transferred_tokens: int = 0

    def at_rest(self) -> "TransferStats":
        """Returns the same totals with nothing in progress."""
        return msgspec.structs.replace(
            self,
            loading=0,
            saving=0,
            closing=0,
            held_blocks=0,
            oldest_load_at=None,
            oldest_save_at=None,
            tiers={name: tier.at_rest() for name, tier in self.tiers.items()},
            waiting_to_load=0,
            loaded_waiting=0,
        )


class TransferNews(msgspec.Struct, frozen=True, array_like=True):
    """What has happened since the last output.

    Attributes:
        loads: Loads that ended.
        events: Look-ups in the connector, and what happened in its tiers.
    """

    loads: tuple[KVLoad, ...] = ()
    events: tuple[ConnectorEvent, ...] = ()


class TransferStep(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What ended with one step.

    Attributes:
        ended: Number of transfers that succeeded or failed.
        closed: Number of cancelled transfers whose blocks are free again.
    """

    ended: int = 0
    closed: int = 0


TRANSFER_STATS = Section(KV_TRANSFER, TransferStats)
TRANSFER_NEWS = Section(KV_TRANSFER, TransferNews)
"""Sections of states, and of outputs and iterations."""

NO_TRANSFERS = TransferStats()


def transfers_of(stats: SchedulerStats) -> TransferStats:
    """Returns the transfers of an engine; without a connector they are all zeros."""
    found = TRANSFER_STATS.read(stats.sections)
    if found is None:
        return NO_TRANSFERS
    return found.at_rest() if stats.is_at_rest else found
