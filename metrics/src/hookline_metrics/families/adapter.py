"""Metrics by adapter: what its requests took, and what they wait for.

All are read when a request or a wait ends, or from a state: none costs time per token.
"""

from collections.abc import Iterable

from hookline.config.readers import OBJECTIVES
from hookline.request import FinishReason
from hookline.stats.finished_request import FinishedRequest
from hookline.tells import Tells
from hookline_metrics.adapters import (
    ADAPTER_GATE,
    AdapterUsage,
    AdapterWait,
    adapters_of,
)
from hookline_metrics.buckets import BucketFamily
from hookline_metrics.families.request_accounts import RequestAccounts
from hookline_metrics.label_guard import NONE, OTHER
from hookline_metrics.metric import Feature, Kind, Label, Metric, Point
from hookline_metrics.readings import Reading, StateReading
from hookline_metrics.slo import misses_of

ADAPTER = Label("adapter")
MOST_CHARACTERS = 256
"""Maximum length of an adapter's name in labels."""
_LOADING, _NO_SLOT = "loading", "no_slot"


def label_of(name: str) -> str:
    """Returns an adapter's label value: neither that of the base model, nor endless."""
    return OTHER if name in ("", NONE) else name[:MOST_CHARACTERS]


def _owner(request: FinishedRequest) -> str:
    """Returns the request's adapter, unless anyone may have sent the name."""
    if (name := request.facts.lora) is None:
        return ""
    return OTHER if request.reason is FinishReason.REJECTED else label_of(name)


_OF_ADAPTER = RequestAccounts(
    "hookline_adapter", ADAPTER, Feature.ADAPTERS, _owner, (Tells.STEPS,)
)


def _drafts(request: FinishedRequest) -> Iterable[Point]:
    if not request.draft_tokens:
        return ()
    owner, accepted = _owner(request), request.accepted_tokens
    rejected = request.draft_tokens - accepted
    return [((owner, "accepted"), accepted, 1), ((owner, "rejected"), rejected, 1)]


def _misses(request: FinishedRequest) -> Iterable[Point]:
    owner = _owner(request)
    return [((owner, miss.objective), 1, 1) for miss in misses_of(request)]


def _wait(wait: AdapterWait) -> Iterable[Point]:
    parts = {
        _LOADING: wait.loading_seconds,
        _NO_SLOT: max(0.0, wait.seconds - wait.loading_seconds),
    }
    name = label_of(wait.adapter)
    return [((name, reason), took, 1) for reason, took in parts.items() if took]


def _requests(state: StateReading) -> Iterable[Point]:
    """Divides the requests among adapters; the base model has the rest."""
    stats = state.stats
    adapters = adapters_of(stats)
    running = stats.running
    gated = stats.held.get(ADAPTER_GATE, 0)
    queued = stats.waiting + sum(stats.held.values()) - gated
    points: list[Point] = []
    named = [(label_of(name), each) for name, each in adapters.adapters.items()]
    for name, counts in (*named, (OTHER, adapters.others)):
        running -= counts.running
        queued -= counts.queued
        gated -= counts.loading + counts.no_slot
        points += [
            ((name, "running"), counts.running, 1),
            ((name, "queued"), counts.queued, 1),
            ((name, _LOADING), counts.loading, 1),
            ((name, _NO_SLOT), counts.no_slot, 1),
        ]
    # The engine still looks for the adapters of the last ones.
    points.append(((OTHER, _LOADING), max(0, gated), 1))
    points.append((("", "running"), max(0, running), 1))
    points.append((("", "queued"), max(0, queued), 1))
    return [point for point in points if point[1] or not point[0][0]]


ADAPTER_METRICS: tuple[Metric, ...] = (
    Metric(
        name="hookline_adapter_requests",
        kind=Kind.GAUGE,
        unit="requests",
        help="Requests by adapter: running, or waiting until its weights are read "
        "(loading), for a slot or a place in memory (no_slot), or for anything else "
        "(queued). The base model is none, adapters beyond the limit are other.",
        labels=(ADAPTER, Label("state", ("running", "queued", _LOADING, _NO_SLOT))),
        feature=Feature.ADAPTERS,
        is_fleeting=True,
        value=Reading(StateReading, _requests),
    ),
    _OF_ADAPTER.finished(
        "Finished requests by adapter and reason; rejected ones that name an adapter "
        "count as other."
    ),
    _OF_ADAPTER.tokens(
        "prompt",
        "Prompt tokens by adapter, of finished requests, cached ones included.",
        lambda request: request.prompt_tokens,
    ),
    _OF_ADAPTER.tokens(
        "cached",
        "Prompt tokens found in a cache, by adapter, of finished requests.",
        lambda request: request.cached_tokens,
    ),
    _OF_ADAPTER.tokens(
        "generation",
        "Generated tokens by adapter, of finished requests.",
        lambda request: request.output_tokens,
    ),
    Metric(
        name="hookline_adapter_draft_tokens",
        kind=Kind.COUNTER,
        unit="tokens",
        help="Draft tokens by adapter and outcome, of finished requests.",
        labels=(ADAPTER, Label("outcome", ("accepted", "rejected"))),
        feature=Feature.ADAPTERS,
        needs=(Tells.STEPS,),
        value=Reading(FinishedRequest, _drafts),
    ),
    _OF_ADAPTER.seconds(
        "time_to_first_token",
        "Time to first token by adapter, observed at the end.",
        BucketFamily.TIME_TO_FIRST_TOKEN,
        lambda request: None if request.decodes_elsewhere else request.ttft_seconds,
    ),
    _OF_ADAPTER.seconds(
        "time_per_output_token",
        "Mean time between a request's tokens, by adapter, observed at the end.",
        BucketFamily.INTER_TOKEN_LATENCY,
        lambda request: request.tpot_seconds,
    ),
    _OF_ADAPTER.seconds(
        "queue",
        "Queue time by adapter, waits for the adapter included, observed at the end.",
        BucketFamily.REQUEST_PHASE,
        lambda request: request.queue_seconds,
    ),
    Metric(
        name="hookline_adapter_wait_seconds",
        kind=Kind.HISTOGRAM,
        unit="seconds",
        help="Waits of requests for their adapter: the part in which its weights were "
        "read, and the rest.",
        labels=(ADAPTER, Label("reason", (_LOADING, _NO_SLOT))),
        buckets=BucketFamily.REQUEST_PHASE,
        feature=Feature.ADAPTERS,
        value=Reading(AdapterWait, _wait),
    ),
    Metric(
        name="hookline_adapter_slo_misses",
        kind=Kind.COUNTER,
        unit="misses",
        help="Missed objectives by adapter.",
        labels=(ADAPTER, Label("objective", (*OBJECTIVES, "success"))),
        feature=Feature.ADAPTERS,
        needs=(Tells.STEPS,),
        value=Reading(FinishedRequest, _misses),
    ),
    Metric(
        name="hookline_adapter_kv_block_seconds",
        kind=Kind.COUNTER,
        unit="seconds",
        help="KV blocks times the seconds for which requests held them, by adapter, "
        "since their last admission; not for the base model.",
        labels=(ADAPTER,),
        feature=Feature.ADAPTERS,
        value=Reading(
            AdapterUsage,
            lambda used: (((label_of(used.adapter),), used.kv_block_seconds, 1),),
        ),
    ),
)
