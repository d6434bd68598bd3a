"""Metrics of KV transfers: what is under way, what it moved, what went wrong."""

from collections.abc import Callable, Iterable

from hookline.clock import NANOSECONDS
from hookline_metrics.buckets import BucketFamily
from hookline_metrics.connector_events import ConnectorLookup
from hookline_metrics.metric import Kind, Label, Metric, Point
from hookline_metrics.readings import Reading, StateReading, by_label, one
from hookline_metrics.transfer_failures import Reason, Stage
from hookline_metrics.transfer_stats import KVLoad, TransferStats, transfers_of

_DIRECTION = Label("direction", ("load", "save"))


def _age(at: int, since: int | None) -> float:
    return 0.0 if since is None else max(at - since, 0) / NANOSECONDS


def _ages(state: StateReading) -> Iterable[Point]:
    transfers = transfers_of(state.stats)
    return by_label(
        {
            "load": _age(state.at, transfers.oldest_load_at),
            "save": _age(state.at, transfers.oldest_save_at),
        }
    )


def _requests(state: StateReading) -> Iterable[Point]:
    stats = state.stats
    return by_label(
        {
            "waiting_to_start": transfers_of(stats).waiting_to_load,
            "in_progress": stats.held.get("remote_kv", 0),
            "completed_waiting": transfers_of(stats).loaded_waiting,
        }
    )


_ALWAYS_REPORTED: tuple[tuple[str, str], ...] = (
    (Stage.LOAD, Reason.RAISED),
    (Stage.LOAD, Reason.DEADLINE),
    (Stage.LOAD, Reason.ABORTED),
    (Stage.LOAD, Reason.UNREPORTED),
    (Stage.LOAD, Reason.INCOMPLETE),
    (Stage.SAVE, Reason.RAISED),
    (Stage.SAVE, Reason.DEADLINE),
)
"""Series that are there before their first failure."""


def _failures(state: StateReading) -> Iterable[Point]:
    counts: dict[tuple[str, str], float] = dict.fromkeys(_ALWAYS_REPORTED, 0)
    for stage, by_reason in transfers_of(state.stats).failures.items():
        for reason, count in by_reason.items():
            counts[stage, reason] = count
    return [(labels, count, 1) for labels, count in counts.items()]


def _each_way(
    name: str,
    kind: Kind,
    unit: str,
    text: str,
    numbers: Callable[[TransferStats], tuple[float, float]],
) -> Metric:
    """Returns a metric with a series for loads and one for saves."""

    def points(state: StateReading) -> Iterable[Point]:
        load, save = numbers(transfers_of(state.stats))
        return by_label({"load": load, "save": save})

    return Metric(
        name=f"hookline_kv_transfer_{name}",
        kind=kind,
        unit=unit,
        help=text,
        labels=(_DIRECTION,),
        value=Reading(StateReading, points),
    )


def _count(
    name: str,
    unit: str,
    text: str,
    number: Callable[[TransferStats], float],
    kind: Kind = Kind.COUNTER,
) -> Metric:
    return Metric(
        name=f"hookline_kv_transfer_{name}",
        kind=kind,
        unit=unit,
        help=text,
        value=Reading(
            StateReading, lambda state: one(number(transfers_of(state.stats)))
        ),
    )


TRANSFER_METRICS: tuple[Metric, ...] = (
    Metric(
        name="hookline_kv_transfer_requests",
        kind=Kind.GAUGE,
        unit="requests",
        help="Requests that wait for KV from the KV connector, by stage: queued until "
        "there are KV blocks for what the connector has, or with a client's word that "
        "another engine has their KV (waiting_to_start), while it is loaded "
        "(in_progress), and queued again after the load (completed_waiting). The first "
        "and the last count as waiting for capacity as well.",
        labels=(
            Label("stage", ("waiting_to_start", "in_progress", "completed_waiting")),
        ),
        value=Reading(StateReading, _requests),
    ),
    Metric(
        name="hookline_kv_transfer_lookup_seconds",
        kind=Kind.HISTOGRAM,
        unit="seconds",
        help="Duration of the KV connector's look-ups of waiting requests, for which "
        "the scheduler waits; a request may be looked up several times.",
        buckets=BucketFamily.KV_LOOKUP,
        value=Reading(
            ConnectorLookup, lambda lookup: one(lookup.nanoseconds / NANOSECONDS)
        ),
    ),
    _each_way(
        "in_flight",
        Kind.GAUGE,
        "transfers",
        "KV transfers in flight: loads, and saves whose blocks are held for them.",
        lambda transfers: (transfers.loading, transfers.saving),
    ),
    Metric(
        name="hookline_kv_transfer_oldest_age_seconds",
        kind=Kind.GAUGE,
        unit="seconds",
        help="Time since the oldest KV transfer in flight started; 0 if none is in "
        "flight.",
        labels=(_DIRECTION,),
        value=Reading(StateReading, _ages),
    ),
    _count(
        "closing",
        "transfers",
        "KV transfers that were cancelled, but whose blocks the worker has not yet "
        "confirmed as released.",
        lambda transfers: transfers.closing,
        Kind.GAUGE,
    ),
    _count(
        "held_blocks",
        "blocks",
        "KV blocks held by transfers; requests may hold some of them as well.",
        lambda transfers: transfers.held_blocks,
        Kind.GAUGE,
    ),
    _count(
        "breaker_open",
        "1",
        "1 while loads are disabled, or only tried now and then, after repeated "
        "failures of the KV connector; otherwise 0.",
        lambda transfers: float(transfers.breaker_open),
        Kind.GAUGE,
    ),
    _each_way(
        "ended",
        Kind.COUNTER,
        "transfers",
        "KV transfers that the worker completed, successfully or not. Transfers "
        "cancelled at their deadline or with their request only count as failures, "
        "and saves that hold no blocks of a finished request do not count.",
        lambda transfers: (transfers.loads, transfers.saves),
    ),
    _each_way(
        "seconds",
        Kind.COUNTER,
        "seconds",
        "Total duration of completed KV transfers: of a synchronous load, the time "
        "that it delayed its step; of a save, the time for which the blocks of a "
        "finished request were held. Saves that hold no blocks, such as those of "
        "evicted blocks, are not included: see hookline_kv_tier_moved_seconds.",
        lambda transfers: (
            transfers.load_ns / NANOSECONDS,
            transfers.save_ns / NANOSECONDS,
        ),
    ),
    Metric(
        name="hookline_kv_transfer_load_seconds",
        kind=Kind.HISTOGRAM,
        unit="seconds",
        help="Duration of each completed load, successful or not: its parts of "
        "hookline_kv_transfer_seconds.",
        buckets=BucketFamily.KV_LOAD,
        value=Reading(KVLoad, lambda load: one(load.nanoseconds / NANOSECONDS)),
    ),
    _each_way(
        "bytes",
        Kind.COUNTER,
        "bytes",
        "Bytes that the KV connector loaded into blocks and saved from them.",
        lambda transfers: (transfers.loaded_bytes, transfers.saved_bytes),
    ),
    Metric(
        name="hookline_kv_transfer_failures",
        kind=Kind.COUNTER,
        unit="failures",
        help="Failures of the KV connector by stage and reason. Stages: load and save "
        "(transfers), incident (reported by the connector, outside any "
        "transfer), or the method that failed. Reasons: the method raised or "
        "returned a malformed result, the deadline passed, a waiting request "
        "needed the blocks of a save (reclaimed), the request was aborted, a load "
        "was unreported, incomplete or without its metadata, or a reason of the "
        "connector.",
        labels=(Label("stage", tuple(Stage)), Label("reason")),
        value=Reading(StateReading, _failures),
    ),
    _count(
        "late_reports",
        "reports",
        "Completion reports for KV transfers that had already completed or been "
        "cancelled.",
        lambda transfers: transfers.late_reports,
    ),
    _count(
        "recomputed_tokens",
        "tokens",
        "Tokens to recompute because a KV load failed: those it should have loaded "
        "and those computed from them.",
        lambda transfers: transfers.recomputed_tokens,
    ),
    _count(
        "expired_blocks",
        "blocks",
        "KV blocks of finished requests that were held for a save which missed its "
        "deadline.",
        lambda transfers: transfers.expired_blocks,
    ),
    _count(
        "reclaimed_blocks",
        "blocks",
        "KV blocks of finished requests that were held for a save and freed before it, "
        "because a waiting request needed them.",
        lambda transfers: transfers.reclaimed_blocks,
    ),
    _count(
        "released_blocks",
        "blocks",
        "KV blocks of finished requests that were held for a save and then released, "
        "as nobody will load them.",
        lambda transfers: transfers.released_blocks,
    ),
)
