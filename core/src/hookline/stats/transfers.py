"""Statistics of KV transfers and of a connector's tiers."""

import msgspec


class TierStats(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A tier of KV blocks that a connector keeps: now, and since the engine's start.

    Attributes:
        blocks: That it has.
        max_blocks: That it may have.
        bytes: Theirs.
        max_bytes: Likewise.
        hit_tokens: Looked for in it, and loaded.
        missed_tokens: Looked for in it, and not there.
        in_bytes: That came into it.
        out_bytes: That were loaded from it.
        evicted_blocks: That made room for others.
        dropped_blocks: That should have come into it, and could not.
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


MOST_TIERS = 8
"""Of a connector."""


class TransferStats(msgspec.Struct, frozen=True, array_like=True):
    """KV transfers: those of the moment, and totals since the engine's start.

    Attributes:
        loading: Loads under way.
        saving: Saves of kept blocks under way.
        closing: Transfers that were given up, and that the worker has not closed yet.
        held_blocks: Blocks that transfers hold, not requests.
        oldest_load_at: When the oldest load under way began (monotonic ns).
        oldest_save_at: When the oldest save under way began.
        breaker_open: Whether the connector is not asked, or only on trial, because it
            failed too often in a row.
        loads: Loads that ended, failed ones included, but not those given up.
        saves: Likewise, saves of kept blocks.
        load_ns: Time of these loads; of a synchronous one, what it held its step up.
        save_ns: Time of these saves, from the end of their requests.
        loaded_bytes: Written to blocks by the connector.
        saved_bytes: Read from blocks by the connector.
        recomputed_tokens: Tokens that failed loads should have brought, or that were
            computed on what they brought.
        expired_blocks: Blocks that were kept until their deadline, and not saved.
        late_reports: Reports of transfers that had ended, or had been given up.
        failures: By stage and reason.
        tiers: Of the connector, by name.
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
    failures: dict[str, dict[str, int]] = {}
    tiers: dict[str, TierStats] = {}

    def at_rest(self) -> "TransferStats":
        """The same totals with nothing under way."""
        return msgspec.structs.replace(
            self,
            loading=0,
            saving=0,
            closing=0,
            held_blocks=0,
            oldest_load_at=None,
            oldest_save_at=None,
        )
