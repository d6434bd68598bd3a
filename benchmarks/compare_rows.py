"""The work on which Hookline and its peers are compared, and the goals."""

from collections.abc import Mapping

from compare_contended import CONTENDED_ROWS
from compare_llama_cpp import LLAMA_CPP_ROWS
from compare_quantized import QUANTIZED_ROWS
from compare_work import (
    HOOKLINE,
    TRANSFORMERS,
    UNCACHED,
    UNDRAFTED,
    UNRECORDED,
    UNSTRUCTURED,
    UNWATCHED,
    VLLM,
    Goal,
    Kind,
    Row,
)


def _latency(batch: int) -> Row:
    return Row(
        kind=Kind.OFFLINE,
        model="llama-90m",
        requests=batch,
        input_tokens=32,
        output_tokens=128,
        iterations=5,
        goals=(Goal("output tok/s", ratio=1.3), Goal("ms", is_higher_better=False)),
    )


def _ngram(batch: int, sides: tuple[str, ...]) -> Row:
    return Row(
        kind=Kind.OFFLINE,
        model="llama-90m",
        requests=batch,
        input_tokens=256,
        output_tokens=256,
        iterations=3,
        num_drafts=4,
        sides=sides,
        goals=tuple(
            Goal("output tok/s", ratio=1.6 if peer == UNDRAFTED else None, peer=peer)
            for peer in sides[1:]
        ),
    )


def _structured(schemas: int) -> Row:
    """Outputs that follow schemas, beside vLLM's and beside free ones."""
    return Row(
        kind=Kind.OFFLINE,
        model="llama-90m",
        requests=64,
        input_tokens=128,
        output_tokens=128,
        iterations=3,
        schemas=schemas,
        sides=(HOOKLINE, UNSTRUCTURED, VLLM),
        goals=(
            Goal("output tok/s", ratio=1.3),
            Goal("output tok/s", ratio=0.95, peer=UNSTRUCTURED),
        ),
    )


def _ready(*, ratio: float | None, bound: float, is_cold: bool = False) -> Row:
    return Row(
        kind=Kind.READY,
        model="llama-tiny",
        dtype="float32",
        is_cold=is_cold,
        goals=(
            Goal("ready s", is_higher_better=False, ratio=ratio, bound=bound),
            Goal("memory MiB", is_higher_better=False, ratio=0.6),
        ),
    )


ROWS: Mapping[str, Row] = {
    "offline-90m": Row(
        kind=Kind.OFFLINE,
        model="llama-90m",
        requests=256,
        input_tokens=128,
        output_tokens=128,
        sides=(HOOKLINE, VLLM, TRANSFORMERS),
        goals=(
            Goal("output tok/s", ratio=1.4),
            Goal("output tok/s", peer=TRANSFORMERS),
        ),
    ),
    "offline-0.6b": Row(
        kind=Kind.OFFLINE,
        model="qwen3-0.6b",
        requests=16,
        input_tokens=128,
        output_tokens=64,
        sides=(HOOKLINE, VLLM, TRANSFORMERS),
        goals=(
            Goal("output tok/s", ratio=1.15),
            Goal("output tok/s", peer=TRANSFORMERS),
        ),
    ),
    "latency-90m-1": _latency(1),
    "latency-90m-8": _latency(8),
    "online-tiny": Row(
        kind=Kind.ONLINE,
        model="llama-tiny",
        dtype="float32",
        requests=400,
        input_tokens=128,
        output_tokens=64,
        goals=(
            Goal("output tok/s", ratio=2.0),
            Goal("mean TTFT ms", is_higher_better=False, ratio=0.6),
            Goal("memory MiB", is_higher_better=False, ratio=0.6),
        ),
    ),
    "online-90m": Row(
        kind=Kind.ONLINE,
        model="llama-90m",
        requests=128,
        input_tokens=128,
        output_tokens=64,
        goals=(
            Goal("output tok/s", ratio=1.3),
            Goal("p99 ITL ms", is_higher_better=False, ratio=1.0),
        ),
    ),
    "recorder-90m": Row(
        kind=Kind.ONLINE,
        model="llama-90m",
        requests=64,
        input_tokens=32,
        output_tokens=64,
        sides=(HOOKLINE, UNRECORDED),
        goals=(
            Goal("output tok/s", ratio=0.995, peer=UNRECORDED),
            Goal("p99 ITL ms", is_higher_better=False, peer=UNRECORDED),
        ),
    ),
    "viewers-90m": Row(
        kind=Kind.ONLINE,
        model="llama-90m",
        requests=64,
        input_tokens=32,
        output_tokens=64,
        viewers=10,
        sides=(HOOKLINE, UNWATCHED),
        goals=(
            Goal("output tok/s", ratio=0.99, peer=UNWATCHED),
            Goal("p99 ITL ms", is_higher_better=False, peer=UNWATCHED),
        ),
    ),
    "long-90m": Row(
        kind=Kind.OFFLINE,
        model="llama-90m",
        requests=8,
        input_tokens=3500,
        output_tokens=64,
        goals=(Goal("total tok/s", ratio=1.2),),
    ),
    "prefix-90m": Row(
        kind=Kind.OFFLINE,
        model="llama-90m",
        requests=64,
        input_tokens=64,
        output_tokens=64,
        prefix_tokens=1024,
        goals=(Goal("output tok/s", ratio=1.2),),
    ),
    "prefix-cost-90m": Row(
        kind=Kind.OFFLINE,
        model="llama-90m",
        requests=64,
        input_tokens=1088,
        output_tokens=64,
        sides=(HOOKLINE, UNCACHED),
        goals=(Goal("output tok/s", ratio=0.99, peer=UNCACHED),),
    ),
    # prompt lookup of transformers takes one request at a time
    "ngram-90m-1": _ngram(1, (HOOKLINE, UNDRAFTED, VLLM, TRANSFORMERS)),
    "ngram-90m-16": _ngram(16, (HOOKLINE, UNDRAFTED, VLLM)),
    "structured-one-schema": _structured(1),
    "structured-64-schemas": _structured(64),
    "ready-tiny": _ready(ratio=0.2, bound=6.0),
    "ready-cold-tiny": _ready(ratio=None, bound=8.0, is_cold=True),
    **CONTENDED_ROWS,
    **QUANTIZED_ROWS,
    **LLAMA_CPP_ROWS,
}
