"""Upper bounds of histogram buckets, one family per measured quantity."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class BucketFamily(StrEnum):
    REQUEST_LATENCY = "request_latency"
    REQUEST_PHASE = "request_phase"
    TIME_TO_FIRST_TOKEN = "time_to_first_token"  # noqa: S105 - not a password
    INTER_TOKEN_LATENCY = "inter_token_latency"  # noqa: S105 - not a password
    ITERATION_TOKENS = "iteration_tokens"
    REQUEST_PARAMS_N = "request_params_n"
    REQUEST_NUM_PREEMPTIONS = "request_num_preemptions"
    REQUEST_TOKENS = "request_tokens"
    STEP_DURATION = "step_duration"
    KV_CACHE_RESIDENCY = "kv_cache_residency"
    PREFIX_CACHE_EVICTION = "prefix_cache_eviction"
    KV_LOAD = "kv_load"
    SLEEP_OPERATION = "sleep_operation"
    KV_LOOKUP = "kv_lookup"
    GRAMMAR_COMPILING = "grammar_compiling"
    TIER_BLOCKS = "tier_blocks"
    TIER_MOVE_BYTES = "tier_move_bytes"
    TIER_MOVE_DURATION = "tier_move_duration"
    VLLM_OFFLOAD_LOOKUP = "vllm_offload_lookup"
    VLLM_OFFLOAD_BLOCKS = "vllm_offload_blocks"
    VLLM_OFFLOAD_BYTES = "vllm_offload_bytes"
    VLLM_PROMOTION_LATENCY = "vllm_promotion_latency"
    HTTP_LATENCY = "http_latency"
    HTTP_LATENCY_HIGH_RESOLUTION = "http_latency_highr"
    HTTP_BYTES = "http_bytes"
    MODEL_MILLISECONDS = "model_milliseconds"
    SGLANG_TTFT = "sglang_time_to_first_token"
    SGLANG_INTER_TOKEN = "sglang_inter_token_latency"  # noqa: S105 - likewise
    SGLANG_E2E = "sglang_e2e_request_latency"
    SGLANG_QUEUE = "sglang_queue_time"
    SGLANG_STAGE = "sglang_per_stage_latency"
    SGLANG_TOKENS = "sglang_tokens"
    SGLANG_CACHE = "sglang_cache_duration"
    SGLANG_BACKUP = "sglang_backup_duration"
    SGLANG_TRANSFER_MILLISECONDS = "sglang_transfer_milliseconds"


def _refined(theirs: tuple[float, ...], *more: float) -> tuple[float, ...]:
    """Adds bounds to another engine's, whose queries by `le` need all of theirs."""
    return tuple(sorted({*theirs, *more}))


# fmt: off
_FIXED: Mapping[BucketFamily, tuple[float, ...]] = MappingProxyType({
    BucketFamily.REQUEST_LATENCY: (
        0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60,
        120, 240, 480, 960, 1920, 7680,
    ),
    BucketFamily.REQUEST_PHASE: (
        0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 1, 1.5, 2,
        2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680,
    ),
    BucketFamily.TIME_TO_FIRST_TOKEN: _refined(
        (
            0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75,
            1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560,
        ),
        0.0005, 0.002, 0.003, 0.0075, 0.015, 0.03, 0.15, 1.5,
    ),
    BucketFamily.INTER_TOKEN_LATENCY: _refined(
        (
            0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75,
            1, 2.5, 5, 7.5, 10, 20, 40, 80,
        ),
        0.0005, 0.001, 0.002, 0.003, 0.004, 0.005, 0.0075, 0.015, 0.02, 0.035, 1.5,
    ),
    BucketFamily.ITERATION_TOKENS: (
        1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384,
    ),
    BucketFamily.REQUEST_PARAMS_N: (1, 2, 5, 10, 20),
    BucketFamily.REQUEST_NUM_PREEMPTIONS: (1, 2, 3, 4, 5, 10, 20),
    BucketFamily.STEP_DURATION: (
        0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
        0.1, 0.25, 0.5, 1, 2.5, 5,
    ),
    BucketFamily.KV_CACHE_RESIDENCY: (
        0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30,
        60, 120, 300, 600, 1200, 1800,
    ),
    BucketFamily.PREFIX_CACHE_EVICTION: (
        0.000001, 0.0000025, 0.000005, 0.00001, 0.000025, 0.00005, 0.0001, 0.00025,
        0.0005, 0.001, 0.0025, 0.005, 0.01, 0.1, 1,
    ),
    BucketFamily.KV_LOAD: (
        0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
        0.5, 1, 2.5, 5, 10, 30, 60, 120,
    ),
    BucketFamily.SLEEP_OPERATION: _refined(
        (0.01, 0.1, 1, 10, 30, 60, 120, 300, 600), 0.001, 0.003, 0.03, 0.3, 3,
    ),
    BucketFamily.GRAMMAR_COMPILING: _refined(
        (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 90, 120, 240),
        0.0005, 0.001, 0.002, 0.005, 0.3, 0.7,
    ),
    BucketFamily.KV_LOOKUP: (
        0.000_001, 0.000_002_5, 0.000_005, 0.000_01, 0.000_025, 0.000_05, 0.0001,
        0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
    ),
    BucketFamily.TIER_BLOCKS: (
        1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 16_384, 65_536,
    ),
    BucketFamily.TIER_MOVE_BYTES: (
        1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 2e6, 5e6, 1e7, 2e7, 5e7, 1e8, 2e8, 5e8,
        1e9, 2e9, 5e9, 1e10,
    ),
    BucketFamily.TIER_MOVE_DURATION: (
        0.000_01, 0.000_025, 0.000_05, 0.0001, 0.000_25, 0.0005, 0.001, 0.0025, 0.005,
        0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60,
    ),
    BucketFamily.VLLM_OFFLOAD_LOOKUP: (
        0.000_01, 0.000_05, 0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1,
    ),
    BucketFamily.VLLM_OFFLOAD_BLOCKS: (
        1, 4, 16, 64, 256, 1024, 4096, 16_384, 65_536, 262_144,
    ),
    BucketFamily.VLLM_OFFLOAD_BYTES: (
        1e6, 5e6, 1e7, 2e7, 4e7, 6e7, 8e7, 1e8, 1.5e8, 2e8,
    ),
    BucketFamily.VLLM_PROMOTION_LATENCY: (
        0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60,
    ),
    BucketFamily.HTTP_LATENCY: (
        0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300,
    ),
    BucketFamily.HTTP_LATENCY_HIGH_RESOLUTION: (
        0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 2.5, 3, 3.5, 4,
        4.5, 5, 7.5, 10, 30, 60,
    ),
    BucketFamily.HTTP_BYTES: (
        100, 1000, 10_000, 100_000, 1_000_000, 10_000_000,
    ),
    BucketFamily.MODEL_MILLISECONDS: (
        1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 60_000,
    ),
    BucketFamily.SGLANG_TTFT: _refined(
        (
            0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400,
        ),
        0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.04,
        0.06, 0.08,
    ),
    BucketFamily.SGLANG_INTER_TOKEN: _refined(
        (
            0.002, 0.004, 0.006, 0.008, 0.01, 0.015, 0.02, 0.025, 0.03, 0.035, 0.04,
            0.06, 0.08, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8,
        ),
        0.0005, 0.001, 0.003, 0.005, 10, 20, 40, 60,
    ),
    BucketFamily.SGLANG_E2E: (
        0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400,
        600, 1200, 1800, 2400,
    ),
    BucketFamily.SGLANG_QUEUE: (
        0.001, 0.005, 0.01, 0.05, 0.1, 0.2, 0.5, 1, 2, 3, 4, 5, 10, 15, 20, 30, 40,
        50, 60, 70, 80, 90, 100, 200, 300, 400, 500, 600, 700, 800, 900, 1000, 1200,
        1400, 1600, 1800, 2000, 2500, 3000,
    ),
    BucketFamily.SGLANG_STAGE: tuple(
        float(f"{0.001 * 1.62**exponent:.4g}") for exponent in range(30)
    ),
    BucketFamily.SGLANG_TOKENS: (
        100, 300, 500, 700, 1000, 1500, 2000, 3000, 4000, 5000, 6000, 7000, 8000, 9000,
        10_000, 12_500, 15_000, 17_500, 20_000, 22_500, 25_000, 27_500, 30_000, 35_000,
        40_000, 60_000, 80_000, 100_000, 200_000, 300_000, 400_000, 600_000, 800_000,
        1_000_000, 1_100_000,
    ),
    BucketFamily.SGLANG_TRANSFER_MILLISECONDS: _refined(
        (1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000),
        0.1, 0.25, 0.5, 10_000, 30_000, 60_000,
    ),
    BucketFamily.SGLANG_BACKUP: _refined(
        (0.001, 0.005, 0.01, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60),
        0.00001, 0.0001, 0.0005,
    ),
    BucketFamily.SGLANG_CACHE: _refined(
        (
            0.001, 0.002, 0.003, 0.004, 0.005, 0.006, 0.007, 0.008, 0.009, 0.01, 0.02,
            0.03, 0.04, 0.05, 0.1, 0.2, 0.5, 1,
        ),
        0.000001, 0.00001, 0.0001, 0.0005, 2, 5, 10, 30, 60,
    ),
})
# fmt: on


def bounds_of(family: BucketFamily, max_model_len: int) -> tuple[float, ...]:
    """Returns the family's bounds; those of token counts end at the context length."""
    if family is BucketFamily.REQUEST_TOKENS:
        return one_two_five(max_model_len)
    return _FIXED[family]


def one_two_five(limit: int) -> tuple[float, ...]:
    """1, 2, 5, 10, 20, 50, … up to `limit`."""
    bounds: list[float] = []
    decade = 1
    while decade <= limit:
        bounds.extend(
            step for step in (decade, 2 * decade, 5 * decade) if step <= limit
        )
        decade *= 10
    return tuple(bounds)
