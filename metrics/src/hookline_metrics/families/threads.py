"""Metrics of the threads that compute steps on CPUs."""

from collections.abc import Iterable

from hookline.clock import NANOSECONDS
from hookline_metrics.metric import Kind, Label, Metric, Point
from hookline_metrics.readings import Reading, StepReading, by_label, one


def _times(step: StepReading) -> Iterable[Point]:
    use = step.record.execution.thread_use
    return by_label(
        {
            "running": use.running_ns / NANOSECONDS,
            "preempted": use.preempted_ns / NANOSECONDS,
        }
    )


THREAD_METRICS: tuple[Metric, ...] = (
    Metric(
        name="hookline_worker_threads",
        kind=Kind.GAUGE,
        unit="threads",
        help="Number of CPU threads that computed the latest step; it follows the CPU "
        "quota and what neighbours leave free. 0 on GPUs.",
        value=Reading(
            StepReading, lambda step: one(step.record.execution.thread_use.threads)
        ),
    ),
    Metric(
        name="hookline_worker_barrier_wait_seconds",
        kind=Kind.COUNTER,
        unit="seconds",
        help="Time in which threads waited for each other within steps, summed over "
        "threads.",
        value=Reading(
            StepReading,
            lambda step: one(
                step.record.execution.thread_use.barrier_wait_ns / NANOSECONDS
            ),
        ),
    ),
    Metric(
        name="hookline_worker_thread_seconds",
        kind=Kind.COUNTER,
        unit="seconds",
        help="Time of the threads that compute steps, summed over them: running on a "
        "core, or preempted: ready to run, but other processes had the cores. "
        "preempted / (running + preempted) is the share that neighbours took.",
        labels=(Label("state", ("running", "preempted")),),
        value=Reading(StepReading, _times),
    ),
    Metric(
        name="hookline_worker_throttled_seconds",
        kind=Kind.COUNTER,
        unit="seconds",
        help="Time in which the control group's CPU quota stopped its processes.",
        value=Reading(
            StepReading,
            lambda step: one(
                step.record.execution.thread_use.throttled_ns / NANOSECONDS
            ),
        ),
    ),
)
