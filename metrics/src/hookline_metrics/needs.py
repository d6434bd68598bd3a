"""What an engine has to tell for a metric to have values."""

from collections.abc import Mapping

from hookline.payloads import EngineFacts, EngineStarted, HttpExchange, PageStats
from hookline.stats.finished_request import FinishedGroup, FinishedRequest
from hookline.stats.iteration_stats import FirstScheduled, FirstToken, IterationStats
from hookline.stats.step_work import BlockEviction
from hookline.tells import Tells
from hookline_metrics.front_end_parts import ObserverStats
from hookline_metrics.metric import Metric, Needs, Scope
from hookline_metrics.readings import FoldedValues, HttpLoad, PageDelay
from hookline_registry import LaneStats

_OF_PARTS: Mapping[type, Needs] = {
    **dict.fromkeys((FinishedRequest, FirstToken, IterationStats), ()),
    FinishedGroup: (Tells.REQUESTS,),
    EngineStarted: (),
    EngineFacts: (Tells.CONFIG,),
    FirstScheduled: (Tells.EVENTS,),
    BlockEviction: (Tells.EVICTIONS,),
    **dict.fromkeys((HttpExchange, HttpLoad), ()),
    ObserverStats: (Tells.OBSERVER,),
    **dict.fromkeys((LaneStats, PageStats, PageDelay, FoldedValues), ()),
}
"""By the part that a metric reads; sums of requests are known of any engine."""

_OF_OTHERS: Mapping[Scope, Needs] = {
    Scope.ENGINE: (Tells.STEPS,),
    Scope.FRONT_END: (Tells.FRONT_END,),
}


def needs_of(metric: Metric) -> Needs:
    """Returns what it needs: what it says, else by the part that it reads."""
    if metric.needs is not None:
        return metric.needs
    return _OF_PARTS.get(metric.value.kind, _OF_OTHERS[metric.scope])
