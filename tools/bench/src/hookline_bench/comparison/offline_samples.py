"""The values in results of the benchmarks that send no requests to a server."""

from collections.abc import Iterator, Mapping

import msgspec

from hookline_bench.comparison.sample import Sample
from hookline_bench.serve_numbers import MILLISECONDS

JITTER_MS = 1.0
LEAST_START_SECONDS = 0.01

_STARTS = ("cold_", "warm_")
_TIMES = "_times"


class PhaseLists(msgspec.Struct, frozen=True):
    """Seconds of each request or batch; None if a request did not reach the phase."""

    latencies: list[float]
    queue_times: list[float | None] = []
    prefill_times: list[float | None] = []
    decode_times: list[float | None] = []


def phase_samples(fields: Mapping[str, object]) -> Iterator[Sample]:
    """Yields the samples of `bench throughput` and `bench latency`.

    Raises:
        msgspec.ValidationError: A list is missing or wrong.
    """
    lists = msgspec.convert(fields, PhaseLists)
    phases: Mapping[str, list[float | None]] = {
        "queue": lists.queue_times,
        "prefill": lists.prefill_times,
        "decode": lists.decode_times,
        "total": [*lists.latencies],
    }
    names = {"total": "latency"}
    for phase, seconds in phases.items():
        if not seconds:
            continue
        yield Sample(
            metric=names.get(phase, phase),
            phase=phase,
            unit="ms",
            values=[each * MILLISECONDS for each in seconds if each is not None],
            least=JITTER_MS if phase == "queue" else 0.0,
        )


def start_samples(fields: Mapping[str, object]) -> Iterator[Sample]:
    """Yields the samples of `bench startup`: whole starts, then their phases.

    Raises:
        msgspec.ValidationError: A list is wrong.
    """
    for name, seconds in fields.items():
        if not (name.startswith(_STARTS) and name.endswith(_TIMES)):
            continue
        kind, _, phase = name.removesuffix(_TIMES).partition("_")
        words = phase.replace("_", " ")
        yield Sample(
            metric=f"{kind} {words}",
            phase="total" if phase == "startup" else words,
            unit="s",
            values=msgspec.convert(seconds, list[float]),
            least=LEAST_START_SECONDS,
        )
