"""Reads the result file of a benchmark."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec

from hookline_bench.comparison.offline_samples import phase_samples, start_samples
from hookline_bench.comparison.recording_samples import is_recording, read_recorded
from hookline_bench.comparison.sample import Benchmark, Result, Sample
from hookline_bench.comparison.serve_samples import serve_samples
from hookline_server.cli.errors import UsageError

MARKS: Mapping[str, Benchmark] = {
    "completed": Benchmark.SERVE,
    "elapsed_time": Benchmark.THROUGHPUT,
    "avg_latency": Benchmark.LATENCY,
    "avg_cold_startup_time": Benchmark.STARTUP,
    "avg_warm_startup_time": Benchmark.STARTUP,
}
"""Fields that only the results of one benchmark have."""

LISTS: Mapping[Benchmark, str] = {
    Benchmark.SERVE: "ttfts",
    Benchmark.THROUGHPUT: "latencies",
    Benchmark.LATENCY: "latencies",
}
"""The list without which a result has no values of single requests."""

READERS: Mapping[Benchmark, Callable[[Mapping[str, object]], Iterable[Sample]]] = {
    Benchmark.SERVE: serve_samples,
    Benchmark.THROUGHPUT: phase_samples,
    Benchmark.LATENCY: phase_samples,
    Benchmark.STARTUP: start_samples,
}

CONDITIONS = (
    "backend",
    "model_id",
    "tokenizer_id",
    "dataset_name",
    "dataset_path",
    "mooncake_slowdown_factor",
    "num_prompts",
    "num_requests",
    "request_rate",
    "burstiness",
    "max_concurrency",
)
"""Fields that two runs should have in common."""

TOTALS = {
    "duration": "Benchmark duration (s)",
    "elapsed_time": "Elapsed time (s)",
    "total_input_tokens": "Total input tokens",
    "total_output_tokens": "Total generated tokens",
    "request_throughput": "Request throughput (req/s)",
    "requests_per_second": "Request throughput (req/s)",
    "request_goodput": "Request goodput (req/s)",
    "output_throughput": "Output token throughput (tok/s)",
    "total_token_throughput": "Total token throughput (tok/s)",
    "tokens_per_second": "Total token throughput (tok/s)",
    "spec_decode_acceptance_length": "Acceptance length",
}
"""Names in reports of the fields that are a number of the whole run."""


def read_result(path: str) -> Result:
    """Reads a result file, or a recording.

    Raises:
        UsageError: It cannot be read, or holds nothing that can be compared.
    """
    if is_recording(path):
        return read_recorded(path)
    fields = _fields(path)
    benchmark = next((MARKS[name] for name in MARKS if name in fields), None)
    if benchmark is None:
        raise UsageError(f"{path} is not a result of `hookline bench`")
    wanted = LISTS.get(benchmark)
    if wanted is not None and wanted not in fields:
        raise UsageError(
            f"{path} has no measurements of single requests; write it with "
            "--output-json or --save-detailed"
        )
    try:
        samples = tuple(READERS[benchmark](fields))
    except (ValueError, msgspec.ValidationError) as error:
        raise UsageError(f"cannot compare {path}: {error}") from error
    return Result(
        benchmark=benchmark,
        samples=samples,
        conditions={name: fields[name] for name in CONDITIONS if name in fields},
        totals={
            TOTALS[name]: float(value)
            for name, value in fields.items()
            if name in TOTALS and isinstance(value, int | float)
        },
    )


def _fields(path: str) -> dict[str, object]:
    try:
        data = Path(path).read_bytes()
        return msgspec.json.decode(data, type=dict[str, object])
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"cannot read {path}: {reason}") from error
