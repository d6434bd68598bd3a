"""The scheduler's state at one moment, with its totals since the engine's start."""

from collections.abc import Mapping

import msgspec

from hookline.frozen import EMPTY
from hookline.sections import NO_SECTIONS, Sections


class Residue(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Remainders of the conservation laws; anything but 0 is a bug.

    Attributes:
        requests: Received + taken over − finished − in flight.
        tokens: Sampled − those of finished requests − those of requests in flight.
        blocks: Pool size − free − held, and references − entries of all block tables.
    """

    requests: int = 0
    tokens: int = 0
    blocks: int = 0


class PrefixCacheCounts(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Running totals of prefix cache lookups, one for each request's first admission.

    Attributes:
        requests: Number of lookups.
        queried_tokens: Number of tokens looked up.
        hit_tokens: Number of tokens found.
    """

    requests: int = 0
    queried_tokens: int = 0
    hit_tokens: int = 0


class TenantStats(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A tenant under the policy `fair`.

    Attributes:
        waiting: Number of its waiting requests.
        lag_tokens: By how many tokens of a tenant of weight 1 it is behind the waiting
            tenant that was served most; an output token counts twice. 0 if it does not
            wait.
    """

    waiting: int = 0
    lag_tokens: float = 0.0


class RunningTotals(msgspec.Struct, array_like=True):
    """What an engine counts from its start on.

    Attributes:
        received: Number of requests received.
        migrated_in: Number of requests that another engine had received before it
            ended; they are not in `received`.
        finished: Number of finished requests, by reason.
        preemptions: Number of preemptions.
        preempted_prompt_tokens: Prompt tokens of requests, at each preemption.
        preempted_output_tokens: Tokens generated for them before, likewise.
        sampled_tokens: Output tokens of all requests.
        discarded_tokens: Sampled tokens that were dropped, because their request had
            ended meanwhile (asynchronous scheduling) or their KV failed to load.
        finished_tokens: Output tokens of finished requests.
        computed_tokens: Tokens computed, recomputed ones included.
        recomputed_tokens: Tokens computed again after a preemption.
        prefix_cache: Lookups in the prefix cache, once a request.
        residue: Remainders of the conservation laws, as of the last audit.
    """

    received: int = 0
    migrated_in: int = 0
    finished: Mapping[str, int] = EMPTY
    preemptions: int = 0
    preempted_prompt_tokens: int = 0
    preempted_output_tokens: int = 0
    sampled_tokens: int = 0
    discarded_tokens: int = 0
    finished_tokens: int = 0
    computed_tokens: int = 0
    recomputed_tokens: int = 0
    prefix_cache: PrefixCacheCounts = PrefixCacheCounts()
    residue: Residue = Residue()


class EngineTotals(RunningTotals, frozen=True, array_like=True):  # type: ignore[misc]
    """What an engine has counted since its start, at one moment."""


MOST_TENANTS = 64
"""Maximum number of tenants in `SchedulerStats`."""


class SchedulerStats(msgspec.Struct, frozen=True, array_like=True):
    """The engine's state at one moment; totals count from the engine's start.

    Attributes:
        running: Number of requests in the running batch.
        waiting: Number of requests waiting for capacity, preempted ones included.
        held: Number of requests that wait for something else, by its name: `grammar`
            or `remote_kv`; those at 0 may be left out.
        waiting_tokens: Number of tokens that waiting requests have yet to compute,
            prefix hits not subtracted.
        preempted: Number of preempted requests that have not been admitted again.
        oldest_waiting_at: When the oldest waiting request was queued, in monotonic ns;
            None if none waits.
        oldest_running_at: When the oldest running request was queued, likewise.
        kv_blocks: Total KV blocks in the pool.
        kv_blocks_used: Number of KV blocks held by requests.
        kv_blocks_cached: Number of free blocks that hold a reusable prefix.
        evicted_blocks: Total blocks evicted from the prefix cache.
        totals: What it has counted since its start.
        tenants: Tenants under the policy `fair`, by name, as of the last audit; the
            name is empty for requests without a tenant.
        sleep_level: 0 while the engine is awake, 1 without the KV cache's memory, 2
            without the weights, too.
        is_at_rest: Whether nothing is in progress, whatever `sections` say: the engine
            has ended.
        sections: States and totals of extensions, by their names.
    """

    running: int = 0
    waiting: int = 0
    held: Mapping[str, int] = EMPTY
    waiting_tokens: int = 0
    preempted: int = 0
    oldest_waiting_at: int | None = None
    oldest_running_at: int | None = None
    kv_blocks: int = 0
    kv_blocks_used: int = 0
    kv_blocks_cached: int = 0
    evicted_blocks: int = 0
    totals: EngineTotals = EngineTotals()
    tenants: Mapping[str, TenantStats] = EMPTY
    sleep_level: int = 0
    is_at_rest: bool = False
    sections: Sections = NO_SECTIONS

    @property
    def kv_usage(self) -> float:
        """Share of the pool held by requests, from 0 to 1; cached blocks are free."""
        return self.kv_blocks_used / self.kv_blocks if self.kv_blocks else 0.0

    def at_rest(self) -> "SchedulerStats":
        """Returns the same totals and residue with nothing running, waiting or held."""
        return SchedulerStats(
            kv_blocks=self.kv_blocks,
            evicted_blocks=self.evicted_blocks,
            totals=self.totals,
            tenants=dict.fromkeys(self.tenants, TenantStats()),
            sleep_level=self.sleep_level,
            is_at_rest=True,
            sections=self.sections,
        )
