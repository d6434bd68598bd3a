"""The rows of weights and KV caches in 8 and 4 bits, beside the same in bfloat16."""

from collections.abc import Iterator, Mapping

from compare_work import HOOKLINE, PLAIN, Goal, Kind, Row

WEIGHTS = {"w8a16": None, "w4a16": 1.7, "w8a8": None, "w4a8": 1.7}
"""Values of `quantization`, and the goal for one request, in terms of bfloat16."""
KV_CACHES = ("int8", "fp8")
"""Values of `kv_cache_dtype`."""
STEP = "median ITL ms"


def _row(requests: int, input_tokens: int, ratio: float | None, **options: str) -> Row:
    return Row(
        kind=Kind.OFFLINE,
        model="qwen3-0.6b",
        requests=requests,
        input_tokens=input_tokens,
        output_tokens=64,
        options=options,
        sides=(HOOKLINE, PLAIN),
        goals=(
            Goal("output tok/s", ratio=ratio, peer=PLAIN),
            Goal(STEP, is_higher_better=False, peer=PLAIN),
        ),
    )


def _rows() -> Iterator[tuple[str, Row]]:
    for value, ratio in WEIGHTS.items():
        for requests in (1, 8):
            goal = ratio if requests == 1 else None
            row = _row(requests, 32, goal, quantization=value)
            yield f"weights-{value}-{requests}", row
    for value in KV_CACHES:
        # The cache of these prompts is as large as the weights.
        yield f"kv-cache-{value}-8", _row(8, 1024, None, kv_cache_dtype=value)


QUANTIZED_ROWS: Mapping[str, Row] = dict(_rows())
