"""The state of an engine that tells it later than what becomes of its requests."""

from msgspec.structs import replace

from hookline.stats.scheduler_stats import SchedulerStats


def balanced(stats: SchedulerStats, num_in_flight: int) -> SchedulerStats:
    """Returns a state in which each request in flight runs, waits or is held.

    Args:
        stats: The latest state that the engine has told.
        num_in_flight: Number of requests that have come and have not ended.
    """
    running = min(stats.running, num_in_flight)
    room, held = num_in_flight - running, {}
    for reason, count in stats.held.items():
        if kept := min(count, room):
            held[reason] = kept
            room -= kept
    return replace(
        stats,
        running=running,
        held=held,
        waiting=room,
        kv_blocks_used=stats.kv_blocks_used if num_in_flight else 0,
    )
