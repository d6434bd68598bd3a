"""Cached tokens by the place that had them."""

from collections.abc import Iterable, Mapping

from hookline.metrics.metric import Kind, Label, Metric, Point
from hookline.metrics.readings import Reading, StateReading, by_label

_PLACE_OF_TIER: Mapping[str, str] = {"cpu": "host", "disk": "disk"}
_PLACES = ("host", "disk", "p2p")
_UNSPECIFIED = "unspecified"


def _found(state: StateReading) -> Iterable[Point]:
    """Returns the hits of each place; those of no tier are where the connector says."""
    stats = state.stats
    tiers = stats.transfers.tiers
    hits = dict.fromkeys((*_PLACES, _UNSPECIFIED), 0)
    for tier, place in _PLACE_OF_TIER.items():
        if tier in tiers:
            hits[place] = tiers[tier].hit_tokens
    rest = stats.external_cache.hit_tokens - sum(hits.values())
    named = stats.transfers.hit_source
    hits[named if named in _PLACES else _UNSPECIFIED] += max(rest, 0)
    return by_label({"device": stats.prefix_cache.hit_tokens, **hits})


CACHE_SOURCE_METRICS: tuple[Metric, ...] = (
    Metric(
        name="hookline_cached_tokens",
        kind=Kind.COUNTER,
        unit="tokens",
        help="Tokens found in a cache instead of being computed, by the place that "
        "had them: the local prefix cache (device, once per request, at its first "
        "admission), or the place that a KV connector loads from: memory (host), disk, "
        "another instance (p2p), or unspecified if the connector names none. Loads "
        "from tiers count when they begin.",
        labels=(Label("source", ("device", *_PLACES, _UNSPECIFIED)),),
        value=Reading(StateReading, _found),
    ),
)
