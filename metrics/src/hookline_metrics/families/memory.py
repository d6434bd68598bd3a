"""Metrics of the main memory that a server's processes share."""

from hookline_metrics.front_end_parts import MemoryStats
from hookline_metrics.metric import Kind, Metric, Scope
from hookline_metrics.readings import Reading, one

MEMORY_METRICS: tuple[Metric, ...] = (
    Metric(
        name="hookline_memory_headroom_bytes",
        kind=Kind.GAUGE,
        unit="bytes",
        help="Main memory that is left to the tightest limit of the server's control "
        "groups, without cached files; at most what the machine has available.",
        scope=Scope.FRONT_END,
        value=Reading(MemoryStats, lambda stats: one(stats.headroom_bytes)),
    ),
    Metric(
        name="hookline_memory_used_bytes",
        kind=Kind.GAUGE,
        unit="bytes",
        help="Main memory in use under the tightest limit of the server's control "
        "groups, without cached files; 0 without a limit.",
        scope=Scope.FRONT_END,
        value=Reading(MemoryStats, lambda stats: one(stats.used_bytes)),
    ),
    Metric(
        name="hookline_out_of_memory_kills",
        kind=Kind.COUNTER,
        unit="kills",
        help="Processes of the server's control group that the kernel killed because "
        "memory ran out.",
        scope=Scope.FRONT_END,
        value=Reading(MemoryStats, lambda stats: one(stats.kills)),
    ),
)
