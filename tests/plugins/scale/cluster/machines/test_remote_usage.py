"""What the processes of engines on other machines take."""

from hookline_cluster.machines.link_messages import Join
from hookline_cluster.machines.remote_engine import RemoteEngine, processes_of
from hookline_metrics.front_end_parts import LinkStats
from hookline_processes.usage import RoleUsage


def told(engine: RemoteEngine) -> list[tuple[str, int, float]]:
    stats = processes_of(LinkStats(engines=(engine.link,)))
    assert stats.are_elsewhere
    return [(each.role, each.processes, each.cpu_seconds) for each in stats.roles]


def usage(cpu_seconds: float) -> tuple[RoleUsage, ...]:
    return (
        RoleUsage(role="engine-1", engine="1", processes=1, cpu_seconds=cpu_seconds),
    )


def test_processor_time_goes_on_with_the_next_process() -> None:
    """
    An engine that is lost takes nothing, and what its processes have used remains; a
    ping whose answer has no news changes nothing.
    """
    engine = RemoteEngine(1)
    engine.assign(Join("there", 7, "1", "", {}), b"key")
    engine.ready()
    engine.answered(0.1, usage(2.0))
    engine.answered(0.2, None)
    assert told(engine) == [("engine-1", 1, 2.0)]

    engine.leave("it is gone", is_lost=True)
    assert told(engine) == [("engine-1", 0, 2.0)]
    engine.assign(Join("there", 8, "1", "", {}), b"key")
    engine.answered(0.1, usage(0.5))

    assert told(engine) == [("engine-1", 1, 2.5)]
