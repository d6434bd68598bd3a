"""The scheduler's state at one moment, with its totals since the engine's start."""

import msgspec

from hookline.stats.prefix_cache import PrefixCacheCounts
from hookline.stats.transfers import TransferStats


class Residue(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What the conservation laws leave over: 0 everywhere, or there is a bug.

    Attributes:
        requests: Received − finished − in flight.
        tokens: Sampled − those of finished requests − those of requests in flight.
        blocks: Pool size − free − held, and references − entries of block tables and of
            KV transfers.
    """

    requests: int = 0
    tokens: int = 0
    blocks: int = 0


class SchedulerStats(msgspec.Struct, frozen=True, array_like=True):
    """The engine's state at one moment; totals count from the engine's start.

    Attributes:
        running: Requests in the running batch.
        waiting: Requests waiting for room, preempted ones included.
        waiting_for_grammar: Requests waiting for their grammar.
        waiting_for_remote_kv: Requests waiting for KV from elsewhere.
        kv_blocks: Size of the pool.
        kv_blocks_used: Blocks held by requests.
        kv_blocks_cached: Free blocks that still hold a reusable prefix.
        prefix_cache: Totals of the local prefix cache.
        external_cache: The same of a KV connector.
        waiting_tokens: Tokens that the waiting requests have yet to compute, prefix
            hits not subtracted.
        received: Requests ever taken in.
        finished: Requests ever ended, by reason.
        preemptions: Preemptions ever.
        computed_tokens: Tokens ever computed, recomputed ones included.
        recomputed_tokens: Tokens ever computed again after a preemption.
        discarded_tokens: Tokens ever sampled for requests that had ended meanwhile,
            where steps overlap, or whose KV turned out wrong.
        transfers: Of KV, to and from a connector.
        oldest_waiting_at: When the oldest waiting request was queued (monotonic ns).
        oldest_running_at: When the oldest running request was queued.
        residue: Of the conservation laws.
    """

    running: int = 0
    waiting: int = 0
    waiting_for_grammar: int = 0
    waiting_for_remote_kv: int = 0
    kv_blocks: int = 0
    kv_blocks_used: int = 0
    kv_blocks_cached: int = 0
    prefix_cache: PrefixCacheCounts = PrefixCacheCounts()
    received: int = 0
    finished: dict[str, int] = {}
    preemptions: int = 0
    computed_tokens: int = 0
    recomputed_tokens: int = 0
    oldest_waiting_at: int | None = None
    oldest_running_at: int | None = None
    residue: Residue = Residue()
    external_cache: PrefixCacheCounts = PrefixCacheCounts()
    waiting_tokens: int = 0
    discarded_tokens: int = 0
    transfers: TransferStats = TransferStats()

    @property
    def kv_usage(self) -> float:
        """Share of the pool held by requests, 0 to 1; reusable blocks count as free."""
        return self.kv_blocks_used / self.kv_blocks if self.kv_blocks else 0.0

    def at_rest(self) -> "SchedulerStats":
        """The same totals and residue with nothing running, waiting or held."""
        return msgspec.structs.replace(
            self,
            running=0,
            waiting=0,
            waiting_tokens=0,
            waiting_for_grammar=0,
            waiting_for_remote_kv=0,
            kv_blocks_used=0,
            kv_blocks_cached=0,
            oldest_waiting_at=None,
            oldest_running_at=None,
            transfers=self.transfers.at_rest(),
        )
