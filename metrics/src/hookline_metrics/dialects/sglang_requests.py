"""Names of SGLang's tokenizer: finished requests, latencies and HTTP."""

from collections.abc import Callable

from hookline.request import FinishReason
from hookline.stats.finished_request import FinishedRequest
from hookline.stats.iteration_stats import FirstToken
from hookline.tells import Tells
from hookline_metrics.buckets import BucketFamily
from hookline_metrics.dialects.sglang_labels import Names, tokenizer
from hookline_metrics.metric import Alias, Kind, Label, Metric, Needs, Point, Value
from hookline_metrics.readings import Reading

_STREAMING = Label("is_streaming", ("true", "false"))


NAMES: Names = {
    "hookline_inter_token_seconds": (
        tokenizer(
            "inter_token_latency_seconds", buckets=BucketFamily.SGLANG_INTER_TOKEN
        ),
    ),
    "hookline_request_prompt_tokens": (
        tokenizer("prompt_tokens_histogram", buckets=BucketFamily.SGLANG_TOKENS),
    ),
    "hookline_request_prefill_computed_tokens": (
        tokenizer(
            "uncached_prompt_tokens_histogram", buckets=BucketFamily.SGLANG_TOKENS
        ),
    ),
    "hookline_request_generation_tokens": (
        tokenizer("generation_tokens_histogram", buckets=BucketFamily.SGLANG_TOKENS),
    ),
    "hookline_request_time_per_output_token_seconds": (
        tokenizer(
            "time_per_output_token_seconds", buckets=BucketFamily.SGLANG_INTER_TOKEN
        ),
    ),
    "hookline_requests_finished": (
        tokenizer(
            "num_aborted_requests",
            values={"reason": {"abort": "", "timeout": ""}},
            drop=frozenset({"reason"}),
        ),
    ),
    "sglang_prompt_tokens": (tokenizer("prompt_tokens"),),
    "sglang_generation_tokens": (tokenizer("generation_tokens"),),
    "sglang_requests": (tokenizer("num_requests"),),
    "sglang_structured_requests": (
        tokenizer("num_so_requests", drop=frozenset({"is_streaming"})),
    ),
    "sglang_time_to_first_token_seconds": (
        tokenizer("time_to_first_token_seconds", buckets=BucketFamily.SGLANG_TTFT),
    ),
    "sglang_request_time_per_output_token_seconds": (
        tokenizer(
            "request_time_per_output_token_seconds",
            buckets=BucketFamily.SGLANG_INTER_TOKEN,
        ),
    ),
    "sglang_e2e_request_latency_seconds": (
        tokenizer("e2e_request_latency_seconds", buckets=BucketFamily.SGLANG_E2E),
    ),
    "hookline_http_requests": (
        Alias(
            name="sglang:http_requests",
            rename={"route": "endpoint"},
            drop=frozenset({"status"}),
        ),
        Alias(
            name="sglang:http_responses",
            rename={"route": "endpoint", "status": "status_code"},
        ),
    ),
    "hookline_http_requests_in_flight": (
        Alias(name="sglang:http_requests_active", rename={"route": "endpoint"}),
    ),
}


def _streamed(request: FinishedRequest | FirstToken) -> str:
    return "true" if request.is_streamed else "false"


def _ttft(first: FirstToken) -> tuple[Point, ...]:
    if first.decodes_elsewhere:
        return ()
    return (((_streamed(first),), first.seconds, 1),)


def _of_request(
    number: Callable[[FinishedRequest], float | None],
) -> Reading[FinishedRequest]:
    """Reads a number from each finished request, labelled by whether it streamed."""

    def points(request: FinishedRequest) -> tuple[Point, ...]:
        value = number(request)
        if value is None or not request.is_measured:
            return ()
        return (((_streamed(request),), value, 1),)

    return Reading(FinishedRequest, points)


def _tpot(request: FinishedRequest) -> float | None:
    is_whole = request.reason in (FinishReason.STOP, FinishReason.LENGTH)
    return request.tpot_seconds if is_whole else None


def _counter(
    name: str, unit: str, text: str, value: Value, needs: Needs | None = None
) -> Metric:
    return Metric(
        name=f"sglang_{name}",
        kind=Kind.COUNTER,
        unit=unit,
        help=text,
        labels=(_STREAMING,),
        is_own=False,
        value=value,
        needs=needs,
    )


def _seconds(
    name: str,
    text: str,
    family: BucketFamily,
    value: Value,
    needs: Needs | None = None,
) -> Metric:
    return Metric(
        name=f"sglang_{name}_seconds",
        kind=Kind.HISTOGRAM,
        unit="seconds",
        help=text,
        labels=(_STREAMING,),
        buckets=family,
        is_own=False,
        value=value,
        needs=needs,
    )


ONLY_THERE: tuple[Metric, ...] = (
    _counter(
        "prompt_tokens",
        "tokens",
        "Prompt tokens of finished requests.",
        _of_request(lambda request: request.prompt_tokens),
    ),
    _counter(
        "generation_tokens",
        "tokens",
        "Generated tokens of finished requests.",
        _of_request(lambda request: request.output_tokens),
    ),
    _counter(
        "requests",
        "requests",
        "Number of finished requests.",
        _of_request(lambda _: 1),
    ),
    _counter(
        "structured_requests",
        "requests",
        "Number of finished requests whose output had to match a structure.",
        _of_request(lambda request: 1 if request.params.structured_outputs else None),
        (Tells.FRONT_END,),
    ),
    _seconds(
        "time_to_first_token",
        "Time to first token: first token - arrival, on the front end's clock.",
        BucketFamily.SGLANG_TTFT,
        Reading(FirstToken, _ttft),
    ),
    _seconds(
        "request_time_per_output_token",
        "Time per output token: decode time / (generated tokens - 1) of requests that "
        "completed; not observed for fewer than two tokens.",
        BucketFamily.SGLANG_INTER_TOKEN,
        _of_request(_tpot),
        (Tells.REQUESTS,),
    ),
    _seconds(
        "e2e_request_latency",
        "End-to-end latency: end - arrival, on the front end's clock.",
        BucketFamily.SGLANG_E2E,
        _of_request(lambda request: request.e2e_seconds),
    ),
)
