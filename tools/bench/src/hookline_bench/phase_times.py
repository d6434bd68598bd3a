"""The phases of requests of an engine in this process, as fields of a result."""

from collections.abc import Callable, Mapping, Sequence

from hookline.outputs import RequestMetrics, RequestOutput

PHASES: Mapping[str, Callable[[RequestMetrics], float | None]] = {
    "queue_times": lambda each: each.queue_seconds,
    "prefill_times": lambda each: each.prefill_seconds,
    "decode_times": lambda each: each.decode_seconds,
}


def phase_fields(
    batches: Sequence[Sequence[RequestOutput]],
) -> dict[str, list[float | None]]:
    """Returns each phase's mean seconds in each batch.

    None stands for a phase that no request of the batch reached.
    """
    metrics = [
        [output.metrics for output in batch if output.metrics is not None]
        for batch in batches
    ]
    return {
        name: [_mean([seconds(each) for each in batch]) for batch in metrics]
        for name, seconds in PHASES.items()
    }


def _mean(seconds: Sequence[float | None]) -> float | None:
    known = [each for each in seconds if each is not None]
    return sum(known) / len(known) if known else None
