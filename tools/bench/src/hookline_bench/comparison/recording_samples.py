"""The values of each request in a recording of an engine."""

from collections.abc import Iterator
from pathlib import Path

from hookline.clock import NANOSECONDS
from hookline_bench.comparison.sample import Benchmark, Result, Sample
from hookline_bench.serve_numbers import MILLISECONDS
from hookline_insight import Account, Explainer
from hookline_metrics.slo import Phase
from hookline_recording import RecordingError, read_recording
from hookline_recording.schema import MAGIC
from hookline_server.cli.errors import UsageError

JITTER_MS = 1.0
_MS = NANOSECONDS / MILLISECONDS
_NAMES = {
    Phase.FRONT_END: "front end",
    Phase.QUEUE: "queue",
    Phase.PREFILL: "prefill",
    Phase.PREEMPTED: "preempted",
    Phase.DECODE: "decode",
}


def is_recording(path: str) -> bool:
    """Whether a file is a recording; False if it cannot be read."""
    try:
        with Path(path).open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def read_recorded(path: str) -> Result:
    """Reads a recording: the phases of each request that it has from begin to end.

    Raises:
        UsageError: It cannot be read, or has no whole request.
    """
    try:
        explainer = Explainer(read_recording(Path(path)))
    except (OSError, RecordingError) as error:
        raise UsageError(str(error)) from error
    outlines = map(explainer.outline, explainer.recording.requests)
    accounts = [
        explainer.account(each.request_id)
        for each in outlines
        if each.is_whole and each.finished is not None
        if each.finished.reason not in ("abort", "error", "rejected")
    ]
    if not accounts:
        raise UsageError(f"{path} has no request from its begin to its end")
    header = explainer.recording.header
    cost = explainer.costs.cost
    return Result(
        benchmark=Benchmark.RECORDING,
        samples=tuple(_samples(accounts)),
        conditions={
            "model": header.model,
            "config_hash": header.config_hash,
            "executor": header.executor,
        },
        totals={
            "Requests": float(len(accounts)),
            "Fixed cost of a step (ms)": cost.fixed * MILLISECONDS,
            "Cost of a decoding request (ms)": cost.decode * MILLISECONDS,
            "Cost of 1000 prompt tokens (ms)": cost.prefill * 1000 * MILLISECONDS,
        },
    )


def _samples(accounts: list[Account]) -> Iterator[Sample]:
    for phase, name in _NAMES.items():
        values = [
            sum(part.ns for part in account.parts if part.phase is phase) / _MS
            for account in accounts
        ]
        if any(values):
            least = 0.0 if phase is Phase.DECODE else JITTER_MS
            yield Sample(metric=name, phase=name, unit="ms", values=values, least=least)
    ttfts = [each.ttft / _MS for each in accounts if each.ttft is not None]
    yield Sample(metric="TTFT", phase="queue and prefill", unit="ms", values=ttfts)
    totals = [account.latency / _MS for account in accounts]
    yield Sample(metric="E2EL", phase="total", unit="ms", values=totals)
