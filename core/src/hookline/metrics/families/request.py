"""Metrics of ended requests, each observed once, when the request has ended.

Rejected requests never reached an engine: they are counted by reason, and have no
part in the distributions.
"""

from collections.abc import Callable, Iterable

from hookline.metrics.buckets import BucketFamily
from hookline.metrics.metric import Feature, Kind, Label, Metric, Point
from hookline.metrics.readings import Reading, by_label, one
from hookline.request import FinishReason
from hookline.stats import FinishedGroup, FinishedRequest


def _of_request(
    number: Callable[[FinishedRequest], float | None],
) -> Reading[FinishedRequest]:
    """Reads a number off each request that an engine took in."""
    return Reading(
        FinishedRequest,
        lambda request: (
            () if request.reason is FinishReason.REJECTED else one(number(request))
        ),
    )


def _computed_prompt(request: FinishedRequest) -> float | None:
    if request.prefill_seconds is None:
        return None
    cached = request.local_cached_tokens + request.external_cached_tokens
    return request.prompt_tokens - cached


def _stalled(request: FinishedRequest) -> float | None:
    return request.preempted_seconds if request.preemptions else None


def _rejection(request: FinishedRequest) -> Iterable[Point]:
    is_rejected = request.reason is FinishReason.REJECTED
    return by_label({request.cause: 1}) if is_rejected else ()


def _latency(
    name: str,
    text: str,
    number: Callable[[FinishedRequest], float | None],
    *,
    feature: Feature | None = None,
) -> Metric:
    return Metric(
        name=f"hookline_request_{name}_seconds",
        kind=Kind.HISTOGRAM,
        unit="seconds",
        help=text,
        buckets=BucketFamily.REQUEST_PHASE,
        value=_of_request(number),
        feature=feature,
    )


def _tokens(
    name: str,
    text: str,
    number: Callable[[FinishedRequest], float | None],
) -> Metric:
    return Metric(
        name=f"hookline_request_{name}_tokens",
        kind=Kind.HISTOGRAM,
        unit="tokens",
        help=text,
        buckets=BucketFamily.REQUEST_TOKENS,
        value=_of_request(number),
    )


REQUEST_METRICS: tuple[Metric, ...] = (
    Metric(
        name="hookline_requests_finished",
        kind=Kind.COUNTER,
        unit="requests",
        help="Ended requests by reason; each ends once, clients that went away "
        "(abort) and requests refused by the front end (rejected) included.",
        labels=(Label("reason", tuple(reason.value for reason in FinishReason)),),
        value=Reading(
            FinishedRequest, lambda request: by_label({request.reason.value: 1})
        ),
    ),
    _tokens(
        "prompt",
        "Length of the prompt.",
        lambda request: request.prompt_tokens,
    ),
    _tokens(
        "generation",
        "Tokens generated for the request.",
        lambda request: request.output_tokens,
    ),
    _tokens(
        "limit",
        "The request's own bound of generated tokens (max_tokens); no observation "
        "where it set none.",
        lambda request: request.params.max_tokens,
    ),
    _tokens(
        "prefill_computed",
        "Prompt tokens computed here, cached ones not among them; no observation for "
        "requests that ended before their first token.",
        _computed_prompt,
    ),
    Metric(
        name="hookline_request_group_max_generation_tokens",
        kind=Kind.HISTOGRAM,
        unit="tokens",
        help="Length of the longest of a client's n completions, observed when the "
        "last of them has ended.",
        buckets=BucketFamily.REQUEST_TOKENS,
        value=Reading(FinishedGroup, lambda group: one(group.max_output_tokens)),
    ),
    Metric(
        name="hookline_request_completions",
        kind=Kind.HISTOGRAM,
        unit="completions",
        help="Completions that a client asked for at once (n), observed when the last "
        "of them has ended.",
        buckets=BucketFamily.REQUEST_PARAMS_N,
        value=Reading(FinishedGroup, lambda group: one(group.n)),
    ),
    Metric(
        name="hookline_request_preemptions",
        kind=Kind.HISTOGRAM,
        unit="preemptions",
        help="How often the request was preempted.",
        buckets=BucketFamily.REQUEST_NUM_PREEMPTIONS,
        value=_of_request(lambda request: request.preemptions),
    ),
    _latency(
        "e2e",
        "End - arrival, both on the front end's clock.",
        lambda request: request.e2e_seconds,
    ),
    _latency(
        "queue",
        "First SCHEDULED - QUEUED; waiting again after a preemption is not in it.",
        lambda request: request.queue_seconds,
    ),
    _latency(
        "prefill",
        "First NEW_TOKENS - first SCHEDULED; preemption included.",
        lambda request: request.prefill_seconds,
    ),
    _latency(
        "decode",
        "Last NEW_TOKENS - first NEW_TOKENS; preemption included.",
        lambda request: request.decode_seconds,
    ),
    _latency(
        "inference",
        "Last NEW_TOKENS - first SCHEDULED, which is prefill + decode; preemption "
        "included.",
        lambda request: request.inference_seconds,
    ),
    _latency(
        "preempted",
        "Sum of SCHEDULED again - PREEMPTED, a part of prefill or decode; observed for "
        "requests that were preempted.",
        _stalled,
    ),
    _latency(
        "model_forward",
        "Time in the model's forward pass, summed over the steps that the request took "
        "part in; a step's time counts for each of its requests.",
        lambda request: request.forward_seconds,
        feature=Feature.MODEL_TIMES,
    ),
    _latency(
        "model_execute",
        "Time in the executor (forward pass, sampling, input preparation), summed over "
        "the steps that the request took part in.",
        lambda request: request.execute_seconds,
        feature=Feature.WORKER_TIMES,
    ),
    Metric(
        name="hookline_requests_rejected",
        kind=Kind.COUNTER,
        unit="requests",
        help="Requests refused by the front end, by the code of the error that their "
        "client got; a part of those finished with the reason rejected.",
        labels=(Label("code", cap=32),),
        value=Reading(FinishedRequest, _rejection),
    ),
    Metric(
        name="hookline_request_time_per_output_token_seconds",
        kind=Kind.HISTOGRAM,
        unit="seconds",
        help="Decode / (generated tokens - 1); no observation for fewer than two "
        "tokens. Preemption included.",
        buckets=BucketFamily.INTER_TOKEN_LATENCY,
        value=_of_request(lambda request: request.tpot_seconds),
    ),
)
