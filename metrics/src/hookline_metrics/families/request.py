"""Metrics of requests, each observed once for a request.

Queue and prefill time are observed as soon as they are known, everything else when the
request finishes. Rejected requests never reached an engine: they are counted by reason,
but not observed in the histograms.
"""

from collections.abc import Callable, Iterable

from hookline.finish_cause import Rejected
from hookline.request import FinishReason, Origin
from hookline.request_limits import LIMITS
from hookline.stats.finished_request import FinishedGroup, FinishedRequest
from hookline.stats.iteration_stats import FirstScheduled, FirstToken
from hookline.tells import Tells
from hookline_metrics.buckets import BucketFamily
from hookline_metrics.families.finish_reasons import REASON, reason_of
from hookline_metrics.families.step import PROMPT_SOURCE
from hookline_metrics.metric import (
    Feature,
    Kind,
    Label,
    Metric,
    Needs,
    Point,
    Value,
)
from hookline_metrics.readings import Reading, by_label, one

_EVENTS = (Tells.EVENTS,)


def _of_request(
    number: Callable[[FinishedRequest], float | None],
) -> Reading[FinishedRequest]:
    """Reads a number from each finished request that an engine accepted."""

    def points(request: FinishedRequest) -> Iterable[Point]:
        if not request.is_measured:
            return ()
        value = number(request)
        return () if value is None else (((), value, 1),)

    return Reading(FinishedRequest, points)


def _computed_prompt(request: FinishedRequest) -> float | None:
    if request.prefill_seconds is None:
        return None
    return request.computed_tokens


def _prompt_of(group: FinishedGroup) -> Iterable[Point]:
    first = group.requests[0]
    if first.prefill_seconds is None:
        return ()
    return by_label(
        {
            "computed": first.computed_tokens,
            "local_cache": first.local_cached_tokens,
            "external": first.external_cached_tokens,
            "transferred": first.transferred_tokens,
        }
    )


def _longest(group: FinishedGroup) -> Iterable[Point]:
    is_known = all(each.has_tokens for each in group.requests)
    return one(group.max_output_tokens if is_known else None)


def _stalled(request: FinishedRequest) -> float | None:
    return request.preempted_seconds if request.preemptions else None


def _rejection(request: FinishedRequest) -> Iterable[Point]:
    is_rejected = request.reason is FinishReason.REJECTED
    return by_label({request.cause.label: 1}) if is_rejected else ()


def _preparation(request: FinishedRequest) -> float | None:
    """Once for all completions of a client's request."""
    return None if request.completion_index else request.preparation_seconds


def _over_limit(request: FinishedRequest) -> Iterable[Point]:
    cause = request.cause
    if isinstance(cause, Rejected) and cause.kind == "limit_exceeded":
        return by_label({cause.limit: 1})
    return ()


def _corruption(request: FinishedRequest) -> Iterable[Point]:
    origin = request.corruption
    return () if origin is None else by_label({origin.value: 1})


def _latency(
    name: str,
    text: str,
    value: Value,
    *,
    feature: Feature | None = None,
    needs: Needs | None = None,
) -> Metric:
    return Metric(
        name=f"hookline_request_{name}_seconds",
        kind=Kind.HISTOGRAM,
        unit="seconds",
        help=text,
        buckets=BucketFamily.REQUEST_PHASE,
        value=value,
        feature=feature,
        needs=needs,
    )


def _tokens(
    name: str,
    text: str,
    number: Callable[[FinishedRequest], float | None],
    *,
    needs: Needs | None = None,
) -> Metric:
    return Metric(
        name=f"hookline_request_{name}_tokens",
        kind=Kind.HISTOGRAM,
        unit="tokens",
        help=text,
        buckets=BucketFamily.REQUEST_TOKENS,
        value=_of_request(lambda each: number(each) if each.has_tokens else None),
        needs=needs,
    )


REQUEST_METRICS: tuple[Metric, ...] = (
    Metric(
        name="hookline_requests_finished",
        kind=Kind.COUNTER,
        unit="requests",
        help="Finished requests by reason, aborted requests (abort), requests whose "
        "deadline passed (timeout) and requests that the front end rejected (rejected) "
        "included. Prompts computed for another instance (prefilled) are no successes.",
        labels=(REASON,),
        value=Reading(
            FinishedRequest, lambda request: by_label({reason_of(request): 1})
        ),
    ),
    Metric(
        name="hookline_requests_corrupted",
        kind=Kind.COUNTER,
        unit="requests",
        help="Ended requests, also served ones, whose output was corrupted, by origin: "
        "not finite (model), made so (logits_processor), drafts that are none "
        "(proposer; only they are lost), or what a plugin's engine cannot give "
        "(engine).",
        labels=(Label("origin", tuple(Origin)),),
        value=Reading(FinishedRequest, _corruption),
        needs=(Tells.CONTENT, Tells.FRONT_END),
    ),
    _tokens(
        "prompt",
        "Prompt tokens per request.",
        lambda request: request.prompt_tokens,
    ),
    _tokens(
        "generation",
        "Generated tokens per request.",
        lambda request: request.output_tokens,
    ),
    _tokens(
        "limit",
        "The request's max_tokens; not observed for requests without one.",
        lambda request: request.params.max_tokens,
    ),
    _tokens(
        "prefill_computed",
        "Prompt tokens computed by the model, without cached and transferred tokens; "
        "not observed for requests that ended before their first token.",
        _computed_prompt,
        needs=_EVENTS,
    ),
    Metric(
        name="hookline_request_group_max_generation_tokens",
        kind=Kind.HISTOGRAM,
        unit="tokens",
        help="Generated tokens of the longest of a request's n completions, observed "
        "when the last of them finishes.",
        buckets=BucketFamily.REQUEST_TOKENS,
        value=Reading(FinishedGroup, _longest),
    ),
    Metric(
        name="hookline_request_group_prompt_tokens",
        kind=Kind.COUNTER,
        unit="tokens",
        help="Prompt tokens of clients' requests, each prompt once whatever its n, by "
        "the source where its first completion got their KV, as in the usage of "
        "responses; counted when the last completion finishes. Requests that end "
        "before their first token are not counted.",
        labels=(PROMPT_SOURCE,),
        value=Reading(FinishedGroup, _prompt_of),
        needs=_EVENTS,
    ),
    Metric(
        name="hookline_request_completions",
        kind=Kind.HISTOGRAM,
        unit="completions",
        help="Number of completions per request (n), observed when the last of them "
        "finishes.",
        buckets=BucketFamily.REQUEST_PARAMS_N,
        value=Reading(FinishedGroup, lambda group: one(group.n)),
    ),
    Metric(
        name="hookline_request_preemptions",
        kind=Kind.HISTOGRAM,
        unit="preemptions",
        help="Preemptions per request.",
        buckets=BucketFamily.REQUEST_NUM_PREEMPTIONS,
        value=_of_request(lambda request: request.preemptions),
        needs=_EVENTS,
    ),
    _latency(
        "e2e",
        "End-to-end latency: end - arrival, on the front end's clock.",
        _of_request(lambda request: request.e2e_seconds),
    ),
    _latency(
        "preparation",
        "Time in the front end before the engine: sent to the engine - arrival. "
        "Checks and tokenizing, and waiting for both; once per request, whatever n.",
        _of_request(_preparation),
        needs=(Tells.REQUESTS,),
    ),
    _latency(
        "queue",
        "Time in the waiting queue: first SCHEDULED - QUEUED, observed at SCHEDULED; "
        "waiting after a preemption is not included.",
        Reading(FirstScheduled, lambda first: one(first.queue_seconds)),
    ),
    _latency(
        "last_scheduled",
        "Time to the last admission: most recent SCHEDULED - QUEUED, observed when the "
        "request finishes. It differs from the queue time only after a preemption, and "
        "then includes what ran before.",
        _of_request(lambda request: request.last_scheduled_seconds),
        needs=_EVENTS,
    ),
    _latency(
        "prefill",
        "Prefill time: first NEW_TOKENS - first SCHEDULED, observed at NEW_TOKENS; "
        "preemption included.",
        Reading(FirstToken, lambda first: one(first.prefill_seconds)),
        needs=_EVENTS,
    ),
    _latency(
        "decode",
        "Decode time: last NEW_TOKENS - first NEW_TOKENS; preemption included.",
        _of_request(lambda request: request.decode_seconds),
    ),
    _latency(
        "inference",
        "Inference time, prefill + decode: last NEW_TOKENS - first SCHEDULED; "
        "preemption included.",
        _of_request(lambda request: request.inference_seconds),
        needs=_EVENTS,
    ),
    _latency(
        "last_prefill",
        "Prefill time of the last admission: next NEW_TOKENS - most recent SCHEDULED; "
        "after a preemption the time to compute the request's tokens again.",
        _of_request(lambda request: request.last_prefill_seconds),
        needs=_EVENTS,
    ),
    _latency(
        "last_decode",
        "Decode time of the last admission: last NEW_TOKENS - first NEW_TOKENS after "
        "the most recent SCHEDULED.",
        _of_request(lambda request: request.last_decode_seconds),
        needs=_EVENTS,
    ),
    _latency(
        "last_inference",
        "Inference time of the last admission: last NEW_TOKENS - most recent "
        "SCHEDULED; not observed without a token after that.",
        _of_request(lambda request: request.last_inference_seconds),
        needs=_EVENTS,
    ),
    _latency(
        "preempted",
        "Time spent preempted: sum of SCHEDULED again - PREEMPTED, also part of "
        "prefill or decode; observed only for requests that were preempted.",
        _of_request(_stalled),
        needs=_EVENTS,
    ),
    _latency(
        "model_forward",
        "Time in the model's forward pass, summed over the request's steps; a step's "
        "time counts fully for each of its requests.",
        _of_request(lambda request: request.forward_seconds),
        feature=Feature.MODEL_TIMES,
        needs=(Tells.STEPS,),
    ),
    _latency(
        "model_execute",
        "Time in the executor (input preparation, forward pass, sampling), summed "
        "over the request's steps.",
        _of_request(lambda request: request.execute_seconds),
        feature=Feature.WORKER_TIMES,
        needs=(Tells.STEPS,),
    ),
    Metric(
        name="hookline_requests_rejected",
        kind=Kind.COUNTER,
        unit="requests",
        help="Requests rejected by the front end, by the error code sent to the "
        "client; also counted in the finished requests with reason rejected.",
        labels=(Label("code", known=("overloaded", "overloaded_tokens")),),
        value=Reading(FinishedRequest, _rejection),
    ),
    Metric(
        name="hookline_requests_over_limit",
        kind=Kind.COUNTER,
        unit="requests",
        help="Requests rejected because they exceeded a limit of their size, by limit; "
        "also counted in the rejected requests with code limit_exceeded.",
        labels=(Label("limit", tuple(limit.name for limit in LIMITS)),),
        value=Reading(FinishedRequest, _over_limit),
        needs=(Tells.FRONT_END,),
    ),
    Metric(
        name="hookline_request_time_per_output_token_seconds",
        kind=Kind.HISTOGRAM,
        unit="seconds",
        help="Time per output token: decode time / (generated tokens - 1); not "
        "observed for fewer than two tokens. Preemption included.",
        buckets=BucketFamily.INTER_TOKEN_LATENCY,
        value=_of_request(lambda request: request.tpot_seconds),
        needs=(Tells.REQUESTS,),
    ),
)
