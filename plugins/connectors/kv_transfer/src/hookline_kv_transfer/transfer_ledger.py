"""Totals of KV transfers since the engine's start."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hookline.frozen import frozen_map
from hookline.stats.scheduler_stats import PrefixCacheCounts
from hookline_kv_transfer.orders import Failures, TransferReport
from hookline_metrics.transfer_failures import Reason
from hookline_metrics.transfer_stats import KVLoad, TierStats, TransferStats

MOST_REASONS = 24
"""Distinct failure reasons: connectors may add their own, and labels are bounded."""


@dataclass(slots=True)
class TransferLedger:
    """Accumulates `TransferStats`.

    Attributes:
        external_cache: Lookups in the connector, one per request.
        tier_hits: Hits of `external_cache` by the tier that had them, as far as the
            connector told.
        loads: Ended loads.
        saves: Ended saves of kept blocks.
        load_ns: Total duration of ended loads, ns.
        save_ns: Total duration of ended saves, ns.
        loaded_bytes: Bytes written to blocks.
        saved_bytes: Bytes read from blocks.
        recomputed_tokens: Tokens that failed loads lacked, or that were computed from
            invalid blocks.
        expired_blocks: Blocks that were not saved before their deadline.
        reclaimed_blocks: Blocks whose save was given up for a waiting request.
        released_blocks: Blocks whose save was given up because nobody will load them.
        transferred_tokens: Tokens that other engines computed for requests, once a
            request.
        late_reports: Reports on transfers that had ended before.
        failures: Failures by stage and reason.
        ended_loads: Ended loads that `take_loads` has not returned yet.
    """

    external_cache: PrefixCacheCounts = field(default_factory=PrefixCacheCounts)
    tier_hits: dict[str, int] = field(default_factory=dict)
    loads: int = 0
    saves: int = 0
    load_ns: int = 0
    save_ns: int = 0
    loaded_bytes: int = 0
    saved_bytes: int = 0
    recomputed_tokens: int = 0
    expired_blocks: int = 0
    reclaimed_blocks: int = 0
    released_blocks: int = 0
    transferred_tokens: int = 0
    late_reports: int = 0
    failures: Failures = field(default_factory=dict)
    ended_loads: list[KVLoad] = field(default_factory=list)
    _reasons: set[str] = field(default_factory=lambda: set(Reason))

    def add_report(self, report: TransferReport) -> None:
        """Adds the worker's own counts."""
        self.add_failures(report.failures)
        self.late_reports += report.late_reports
        self.loaded_bytes += report.loaded_bytes
        self.saved_bytes += report.saved_bytes

    def add_failures(self, failures: Failures) -> None:
        for stage, by_reason in failures.items():
            for reason, count in by_reason.items():
                self.fail(stage, reason, count)

    def fail(self, stage: str, reason: str, count: int = 1) -> None:
        """Counts a failure; reasons beyond the first `MOST_REASONS` as `other`."""
        if reason not in self._reasons:
            if len(self._reasons) == MOST_REASONS:
                reason = "other"
            else:
                self._reasons.add(str(reason))
        by_reason = self.failures.setdefault(str(stage), {})
        by_reason[str(reason)] = by_reason.get(str(reason), 0) + count

    def count_load(self, load: KVLoad) -> None:
        self.loads += 1
        self.load_ns += load.nanoseconds
        self.ended_loads.append(load)

    def take_loads(self) -> list[KVLoad]:
        """Returns the ended loads since the last call."""
        loads, self.ended_loads = self.ended_loads, []
        return loads

    def count_save(self, nanoseconds: int) -> None:
        self.saves += 1
        self.save_ns += nanoseconds

    def count_lookup(
        self, queried_tokens: int, hit_tokens: int, tiers: Mapping[str, int]
    ) -> None:
        """Counts a lookup, whose hits were in these tiers."""
        self._count_tiers(hit_tokens, tiers)
        before = self.external_cache
        self.external_cache = PrefixCacheCounts(
            before.requests + 1,
            before.queried_tokens + queried_tokens,
            before.hit_tokens + hit_tokens,
        )

    def count_hits(self, tokens: int, tiers: Mapping[str, int]) -> None:
        """Adds hits to a lookup that was counted before."""
        self._count_tiers(tokens, tiers)
        before = self.external_cache
        self.external_cache = PrefixCacheCounts(
            before.requests, before.queried_tokens, before.hit_tokens + tokens
        )

    def stats(
        self,
        *,
        loading: int,
        saving: int,
        closing: int,
        held_blocks: int,
        oldest_load_at: int | None,
        oldest_save_at: int | None,
        breaker_open: bool,
        tiers: dict[str, TierStats],
        hit_source: str,
        waiting_to_load: int,
        loaded_waiting: int,
    ) -> TransferStats:
        """Returns the totals together with the current state."""
        return TransferStats(
            loading=loading,
            saving=saving,
            closing=closing,
            held_blocks=held_blocks,
            oldest_load_at=oldest_load_at,
            oldest_save_at=oldest_save_at,
            breaker_open=breaker_open,
            loads=self.loads,
            saves=self.saves,
            load_ns=self.load_ns,
            save_ns=self.save_ns,
            loaded_bytes=self.loaded_bytes,
            saved_bytes=self.saved_bytes,
            recomputed_tokens=self.recomputed_tokens,
            expired_blocks=self.expired_blocks,
            reclaimed_blocks=self.reclaimed_blocks,
            released_blocks=self.released_blocks,
            transferred_tokens=self.transferred_tokens,
            late_reports=self.late_reports,
            failures=frozen_map(
                {
                    stage: frozen_map(dict(counts))
                    for stage, counts in self.failures.items()
                }
            ),
            tiers=frozen_map(tiers),
            hit_source=hit_source,
            tier_hits=frozen_map(dict(self.tier_hits)),
            waiting_to_load=waiting_to_load,
            loaded_waiting=loaded_waiting,
            external_cache=self.external_cache,
        )

    def _count_tiers(self, hit_tokens: int, tiers: Mapping[str, int]) -> None:
        """Divides hits among tiers; fewer than the tiers had, if the load failed."""
        for tier, tokens in tiers.items():
            counted = min(tokens, hit_tokens)
            hit_tokens -= counted
            if counted:
                self.tier_hits[tier] = self.tier_hits.get(tier, 0) + counted
