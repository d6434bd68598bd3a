"""When the threads of steps had no CPU, by what the operating system has counted."""

from collections.abc import Mapping, Sequence

from hookline_insight.company import size_of
from hookline_recording import RecordedStep
from hookline_recording.costs import FittedCosts


def taken_times(
    steps: Sequence[RecordedStep], durations: Mapping[int, int], costs: FittedCosts
) -> dict[int, float]:
    """Returns for how long steps had no CPU, ns, by index.

    Several steps share a report; its time is shared out among them by how much longer
    than expected each of them took.
    """
    found: dict[int, float] = {}
    since: list[int] = []
    for index, step in enumerate(steps):
        if index in durations:
            since.append(index)
        if step.computed is None or step.computed.threads is None:
            continue
        threads, _, _, preempted_ns, throttled_ns = step.computed.threads[:5]
        taken = preempted_ns / max(1, threads) + throttled_ns
        excess = {
            each: max(0.0, durations[each] - costs.expected_ns(size_of(steps[each])))
            for each in since
        }
        since = []
        whole = sum(excess.values())
        if whole and taken:
            scale = min(1.0, taken / whole)
            found.update({each: part * scale for each, part in excess.items() if part})
    return found
