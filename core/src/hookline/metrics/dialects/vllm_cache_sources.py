"""vLLM's cached tokens by source: of the device, and of the tiers of a KV connector."""

from collections.abc import Iterable, Mapping

from hookline.metrics.metric import Alias, Kind, Label, Metric, Point
from hookline.metrics.readings import Reading, StateReading, by_label

_NAME = "vllm:prompt_tokens_cached_by_source"
_SOURCES = {"cpu": "host", "disk": "disk"}
"""vLLM's source by our name of a tier."""

_PLACES = (*_SOURCES.values(), "p2p")
_UNSPECIFIED = "external_unspecified"


def _external(state: StateReading) -> Iterable[Point]:
    """Returns the hits of each tier; others are of the source the connector names."""
    stats = state.stats
    tiers = stats.transfers.tiers
    hits = dict.fromkeys((*_PLACES, _UNSPECIFIED), 0)
    for tier, source in _SOURCES.items():
        if tier in tiers:
            hits[source] = tiers[tier].hit_tokens
    rest = stats.external_cache.hit_tokens - sum(hits.values())
    named = stats.transfers.hit_source
    hits[named if named in _PLACES else _UNSPECIFIED] += max(rest, 0)
    return by_label(hits)


NAMES: Mapping[str, tuple[Alias, ...]] = {
    "hookline_prefix_cache_hit_tokens": (Alias(name=_NAME, add={"source": "device"}),),
    "vllm_external_hit_tokens": (Alias(name=_NAME),),
}

ONLY_THERE: tuple[Metric, ...] = (
    Metric(
        name="vllm_external_hit_tokens",
        kind=Kind.COUNTER,
        unit="tokens",
        help="Tokens loaded by the KV connector, by the place that had them.",
        labels=(Label("source", (*_PLACES, _UNSPECIFIED)),),
        is_own=False,
        value=Reading(StateReading, _external),
    ),
)
