"""Metrics of a server's processes by their roles, whichever process serves the page."""

from collections.abc import Callable

from hookline_metrics.front_end_parts import ProcessStats
from hookline_metrics.metric import Kind, Label, Metric, Scope, Stability
from hookline_metrics.readings import Reading
from hookline_processes.usage import RoleUsage

_LABELS = (Label("role", cap=256), Label("engine", cap=256))


def _of_roles(
    name: str, kind: Kind, unit: str, text: str, number: Callable[[RoleUsage], float]
) -> Metric:
    def points(
        stats: ProcessStats,
    ) -> list[tuple[tuple[str, str], float, int]]:
        return [((each.role, each.engine), number(each), 1) for each in stats.roles]

    return Metric(
        name=name,
        kind=kind,
        unit=unit,
        help=text,
        labels=_LABELS,
        scope=Scope.FRONT_END,
        value=Reading(ProcessStats, points),
        stability=Stability.EXPERIMENTAL,
    )


PROCESS_METRICS: tuple[Metric, ...] = (
    _of_roles(
        "hookline_processes",
        Kind.GAUGE,
        "processes",
        "Processes of the role; of an engine, with the engine's index.",
        lambda usage: usage.processes,
    ),
    _of_roles(
        "hookline_process_resident_memory_bytes",
        Kind.GAUGE,
        "bytes",
        "Resident memory of the role; what processes share counts for each.",
        lambda usage: usage.resident_bytes,
    ),
    _of_roles(
        "hookline_process_cpu_seconds",
        Kind.COUNTER,
        "seconds",
        "Processor time of the role, ended processes included.",
        lambda usage: usage.cpu_seconds,
    ),
    _of_roles(
        "hookline_process_open_fds",
        Kind.GAUGE,
        "1",
        "Open descriptors of the role.",
        lambda usage: usage.open_fds,
    ),
    _of_roles(
        "hookline_process_threads",
        Kind.GAUGE,
        "1",
        "Threads of the role.",
        lambda usage: usage.threads,
    ),
    _of_roles(
        "hookline_process_start_time_seconds",
        Kind.GAUGE,
        "seconds",
        "When the role's latest process started, since the epoch; 0 without one.",
        lambda usage: usage.started_at,
    ),
)
