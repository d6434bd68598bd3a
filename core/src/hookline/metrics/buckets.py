"""Upper bounds of histogram buckets, by what is measured."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class BucketFamily(StrEnum):
    REQUEST_LATENCY = "request_latency"
    TIME_TO_FIRST_TOKEN = "time_to_first_token"  # noqa: S105 - not a password
    INTER_TOKEN_LATENCY = "inter_token_latency"  # noqa: S105 - not a password
    ITERATION_TOKENS = "iteration_tokens"
    REQUEST_PARAMS_N = "request_params_n"
    REQUEST_NUM_PREEMPTIONS = "request_num_preemptions"
    REQUEST_TOKENS = "request_tokens"
    STEP_DURATION = "step_duration"


# fmt: off
_FIXED: Mapping[BucketFamily, tuple[float, ...]] = MappingProxyType({
    BucketFamily.REQUEST_LATENCY: (
        0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60,
        120, 240, 480, 960, 1920, 7680,
    ),
    BucketFamily.TIME_TO_FIRST_TOKEN: (
        0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75,
        1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560,
    ),
    BucketFamily.INTER_TOKEN_LATENCY: (
        0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75,
        1, 2.5, 5, 7.5, 10, 20, 40, 80,
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
})
# fmt: on


def bounds_of(family: BucketFamily, max_model_len: int) -> tuple[float, ...]:
    """The family's bounds; token counts of a request end at the context length."""
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
