"""Cached tokens by the place that had them."""

from collections.abc import Iterable, Mapping

from hookline_metrics.metric import Kind, Label, Metric, Point
from hookline_metrics.readings import Reading, StateReading, by_label
from hookline_metrics.transfer_stats import transfers_of

_PLACE_OF_TIER: Mapping[str, str] = {"cpu": "host", "disk": "disk"}
_PLACES = ("host", "disk", "p2p")
_UNSPECIFIED = "unspecified"


def _found(state: StateReading) -> Iterable[Point]:
    """Returns hits by place; the connector's `hit_source` has those of no tier."""
    stats, transfers = state.stats, transfers_of(state.stats)
    hits = dict.fromkeys((*_PLACES, _UNSPECIFIED), 0)
    for tier, tokens in transfers.tier_hits.items():
        hits[_PLACE_OF_TIER.get(tier, _UNSPECIFIED)] += tokens
    named = transfers.hit_source
    rest = transfers.external_cache.hit_tokens - sum(hits.values())
    hits[named if named in _PLACES else _UNSPECIFIED] += rest
    return by_label({"device": stats.totals.prefix_cache.hit_tokens, **hits})


CACHE_SOURCE_METRICS: tuple[Metric, ...] = (
    Metric(
        name="hookline_cached_tokens",
        kind=Kind.COUNTER,
        unit="tokens",
        help="Tokens found in a cache instead of being computed, once per request, at "
        "its first admission, by the place that had them: the local prefix cache "
        "(device), or the place that a KV connector loads from: memory (host), disk, "
        "another instance (p2p), or unspecified if the connector names none.",
        labels=(Label("source", ("device", *_PLACES, _UNSPECIFIED)),),
        value=Reading(StateReading, _found),
    ),
)
