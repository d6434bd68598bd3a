"""The catalogue of all metrics."""

import dataclasses

from hookline_metrics.dialects import ONLY_THERE, names_of
from hookline_metrics.families.adapter import ADAPTER_METRICS
from hookline_metrics.families.adapter_residency import ADAPTER_RESIDENCY_METRICS
from hookline_metrics.families.api_keys import API_KEY_METRICS
from hookline_metrics.families.bodies import BODY_METRICS
from hookline_metrics.families.cache_sources import CACHE_SOURCE_METRICS
from hookline_metrics.families.capacity import CAPACITY_METRICS
from hookline_metrics.families.connections import CONNECTION_METRICS
from hookline_metrics.families.event_loop import EVENT_LOOP_METRICS
from hookline_metrics.families.http import HTTP_METRICS
from hookline_metrics.families.links import LINK_METRICS
from hookline_metrics.families.live import LIVE_METRICS
from hookline_metrics.families.log import LOG_METRICS
from hookline_metrics.families.logger import FOLDED, LOGGER_METRICS
from hookline_metrics.families.memory import MEMORY_METRICS
from hookline_metrics.families.objectives import SLO_METRICS
from hookline_metrics.families.observer import OBSERVER_METRICS
from hookline_metrics.families.placement import PLACEMENT_METRICS
from hookline_metrics.families.preemption import PREEMPTION_METRICS
from hookline_metrics.families.prefix_cache import PREFIX_CACHE_METRICS
from hookline_metrics.families.processes import PROCESS_METRICS
from hookline_metrics.families.ranks import RANK_METRICS
from hookline_metrics.families.request import REQUEST_METRICS
from hookline_metrics.families.residency import RESIDENCY_METRICS
from hookline_metrics.families.scaling import SCALING_METRICS
from hookline_metrics.families.sleep import SLEEP_METRICS
from hookline_metrics.families.speculation import SPECULATION_METRICS
from hookline_metrics.families.state import ENGINE_METRICS
from hookline_metrics.families.step import STEP_METRICS
from hookline_metrics.families.stored_responses import STORED_RESPONSE_METRICS
from hookline_metrics.families.structured_outputs import STRUCTURED_OUTPUT_METRICS
from hookline_metrics.families.tenant import TENANT_METRICS
from hookline_metrics.families.text import TEXT_METRICS
from hookline_metrics.families.threads import THREAD_METRICS
from hookline_metrics.families.tier_events import TIER_EVENT_METRICS
from hookline_metrics.families.tiers import TIER_METRICS
from hookline_metrics.families.transfers import TRANSFER_METRICS
from hookline_metrics.metric import OWN_DIALECT, Metric

_OWN: tuple[Metric, ...] = (
    *ENGINE_METRICS,
    *PREEMPTION_METRICS,
    *PREFIX_CACHE_METRICS,
    *CACHE_SOURCE_METRICS,
    *RESIDENCY_METRICS,
    *LIVE_METRICS,
    *CAPACITY_METRICS,
    *STEP_METRICS,
    *THREAD_METRICS,
    *RANK_METRICS,
    *SPECULATION_METRICS,
    *STRUCTURED_OUTPUT_METRICS,
    *TRANSFER_METRICS,
    *TIER_METRICS,
    *TIER_EVENT_METRICS,
    *REQUEST_METRICS,
    *SLO_METRICS,
    *TENANT_METRICS,
    *ADAPTER_METRICS,
    *ADAPTER_RESIDENCY_METRICS,
    *HTTP_METRICS,
    *CONNECTION_METRICS,
    *LOG_METRICS,
    *TEXT_METRICS,
    *BODY_METRICS,
    *STORED_RESPONSE_METRICS,
    *API_KEY_METRICS,
    *EVENT_LOOP_METRICS,
    *MEMORY_METRICS,
    *PROCESS_METRICS,
    *PLACEMENT_METRICS,
    *LINK_METRICS,
    *SCALING_METRICS,
    *SLEEP_METRICS,
    *LOGGER_METRICS,
    *OBSERVER_METRICS,
    FOLDED,
)

CATALOGUE: tuple[Metric, ...] = tuple(
    dataclasses.replace(metric, names=names_of(metric.name))
    for metric in (*_OWN, *ONLY_THERE)
)

DIALECTS: tuple[str, ...] = (
    OWN_DIALECT,
    *sorted({dialect for metric in CATALOGUE for dialect in metric.names}),
)
