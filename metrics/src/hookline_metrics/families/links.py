"""Metrics of the connections to engines on other machines."""

from collections.abc import Callable, Iterable

from hookline_metrics.front_end_parts import EngineLink, LinkStats
from hookline_metrics.metric import Kind, Label, Metric, Point, Scope
from hookline_metrics.readings import Reading, one

_ENGINE = Label("engine", cap=None)


def _each(value: Callable[[EngineLink], float]) -> Reading[LinkStats]:
    def points(stats: LinkStats) -> Iterable[Point]:
        return [((str(each.engine_index),), value(each), 1) for each in stats.engines]

    return Reading(LinkStats, points)


def _machines(stats: LinkStats) -> Iterable[Point]:
    for link in stats.engines:
        engine = str(link.engine_index)
        for host in link.former_hosts:
            yield (engine, host), 0.0, 1
        if link.host:
            yield (engine, link.host), float(link.is_up), 1


LINK_METRICS: tuple[Metric, ...] = (
    Metric(
        name="hookline_engine_machine_info",
        kind=Kind.GAUGE,
        unit="1",
        help="Name of the other machine that runs an engine: 1 while the engine is "
        "there, 0 while it is not.",
        labels=(_ENGINE, Label("host")),
        scope=Scope.FRONT_END,
        value=Reading(LinkStats, _machines),
    ),
    Metric(
        name="hookline_engine_link_round_trip_seconds",
        kind=Kind.GAUGE,
        unit="seconds",
        help="Time from the latest ping of an engine on another machine to its answer, "
        "which the engine gives between two steps; 0 while it is not there.",
        labels=(_ENGINE,),
        scope=Scope.FRONT_END,
        value=_each(lambda link: link.round_trip_seconds or 0.0),
    ),
    Metric(
        name="hookline_engine_link_losses",
        kind=Kind.COUNTER,
        unit="losses",
        help="Number of times that the connection to an engine on another machine was "
        "lost, because its process or its machine ended or the network failed.",
        labels=(_ENGINE,),
        scope=Scope.FRONT_END,
        value=_each(lambda link: link.lost),
    ),
    Metric(
        name="hookline_engine_link_joins",
        kind=Kind.COUNTER,
        unit="joins",
        help="Number of processes on other machines that became an engine, one after "
        "another.",
        labels=(_ENGINE,),
        scope=Scope.FRONT_END,
        value=_each(lambda link: link.joined),
    ),
    Metric(
        name="hookline_transport_connections_refused",
        kind=Kind.COUNTER,
        unit="connections",
        help="Connections to the port for engines of other machines that ended before "
        "they had proved that they know the secret.",
        scope=Scope.FRONT_END,
        value=Reading(LinkStats, lambda stats: one(stats.refused)),
    ),
)
