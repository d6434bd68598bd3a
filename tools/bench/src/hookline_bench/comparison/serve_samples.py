"""The values of each request in a result of `hookline bench serve`."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from hookline_bench.comparison.sample import Sample
from hookline_bench.serve_numbers import MILLISECONDS

JITTER_MS = 1.0


class ServeLists(msgspec.Struct, frozen=True):
    """The lists over requests; vLLM's results have most of them, too."""

    ttfts: list[float]
    itls: list[list[float]]
    output_lens: list[int]
    errors: list[str | None]
    queue_times: list[float] | None = None


def serve_samples(fields: Mapping[str, object]) -> Iterator[Sample]:
    """Yields the samples; failed requests count only as failed.

    Raises:
        msgspec.ValidationError: A list is missing or wrong.
        ValueError: The lists have different lengths.
    """
    lists = msgspec.convert(fields, ServeLists)
    good = _good(lists)
    ttfts = [lists.ttfts[each] for each in good]
    decodes = [sum(lists.itls[each]) for each in good]
    totals = [first + rest for first, rest in zip(ttfts, decodes, strict=True)]
    tpots = [
        decode / (lists.output_lens[each] - 1)
        for each, decode in zip(good, decodes, strict=True)
        if lists.output_lens[each] > 1
    ]
    yield _failures(lists.errors)
    if lists.queue_times is not None and fields.get("max_concurrency") is not None:
        waits = [lists.queue_times[each] for each in good]
        yield _milliseconds("client queue", "client queue", waits, least=JITTER_MS)
    yield _milliseconds("TTFT", "queue and prefill", ttfts)
    yield _milliseconds("TPOT", "decode", tpots)
    yield _milliseconds("decode", "decode", decodes)
    yield _milliseconds("E2EL", "total", totals)


def _good(lists: ServeLists) -> list[int]:
    waits = lists.errors if lists.queue_times is None else lists.queue_times
    first: Sequence[Sequence[object]] = (lists.ttfts, lists.itls, lists.output_lens)
    if len({len(column) for column in (*first, lists.errors, waits)}) > 1:
        raise ValueError("its lists have different numbers of requests")
    return [number for number, error in enumerate(lists.errors) if not error]


def _failures(errors: Sequence[str | None]) -> Sample:
    shares = [100.0 if error else 0.0 for error in errors]
    return Sample(
        metric="failed", phase="total", unit="%", values=shares, is_share=True
    )


def _milliseconds(
    metric: str, phase: str, seconds: Sequence[float], *, least: float = 0.0
) -> Sample:
    values = [each * MILLISECONDS for each in seconds]
    return Sample(metric=metric, phase=phase, unit="ms", values=values, least=least)
