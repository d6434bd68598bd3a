"""Builds the log line of a finished request."""

from datetime import UTC, datetime

import msgspec

from hookline.clock import NANOSECONDS
from hookline.finish_cause import Failed, FinishCause, Rejected
from hookline.request import FinishReason
from hookline.stats.finished_request import FinishedRequest
from hookline_metrics.adapter_trails import NO_TRAIL, AdapterTrail
from hookline_metrics.slo import judge
from hookline_request_log.schema import (
    Attainment,
    Line,
    Sampling,
    Seconds,
    TokenIds,
    Tokens,
)

DIGITS = 6
DIGEST_CHARACTERS = 12
"""Enough to tell one version of an adapter from another."""


def make_line(
    request: FinishedRequest,
    *,
    model: str,
    engine: int,
    now: int,
    max_prompt_tokens: int | None,
    trail: AdapterTrail = NO_TRAIL,
) -> Line:
    """Builds the line of a finished request.

    Args:
        request: The request.
        model: Served name of the model.
        engine: Index of the engine.
        now: Nanoseconds since the epoch, for a request without times.
        max_prompt_tokens: Maximum token ids per prompt, and per output; None omits
            both.
        trail: What is known of its adapter.
    """
    line = _without_token_ids(request, model, engine, now, trail)
    if max_prompt_tokens is None:
        return line
    return msgspec.structs.replace(
        line,
        prompt=_first(request.prompt_token_ids, max_prompt_tokens),
        output=_first(request.output_token_ids, max_prompt_tokens),
    )


def _without_token_ids(
    request: FinishedRequest,
    model: str,
    engine: int,
    now: int,
    trail: AdapterTrail,
) -> Line:
    facts, is_rejected = request.facts, request.reason is FinishReason.REJECTED
    misses = judge(request)
    return Line(
        ts=_utc(now if request.times is None else request.times.ended),
        model=model,
        engine=engine,
        request_id=facts.client_id,
        internal_id=None if is_rejected else request.request_id,
        completion_index=request.completion_index,
        tenant=facts.tenant,
        lora=facts.lora,
        lora_digest=trail.digest[:DIGEST_CHARACTERS] or None,
        priority=facts.priority,
        trace_id=facts.trace_id or None,
        operation=facts.operation,
        streamed=request.is_streamed,
        decodes_elsewhere=request.decodes_elsewhere,
        reason=request.reason.value,
        cause=request.cause.label or None,
        error=_error(request.cause),
        tokens=_tokens(request),
        seconds=_seconds(request, trail),
        preemptions=request.preemptions,
        sampling=None if is_rejected else _sampling(request),
        slo=Attainment(judged=misses is not None, misses=misses or ()),
    )


def _error(cause: FinishCause) -> str | None:
    match cause:
        case Rejected():
            return cause.message
        case Failed():
            return cause.detail
        case _:
            return None


def _tokens(request: FinishedRequest) -> Tokens:
    # Before the first token it is unknown how much of the prompt was computed.
    has_prefilled = request.prefill_seconds is not None
    return Tokens(
        prompt=request.prompt_tokens if request.has_tokens else None,
        computed=request.computed_tokens if has_prefilled else None,
        local_cached=request.local_cached_tokens,
        external_cached=request.external_cached_tokens,
        transferred=request.transferred_tokens,
        generated=request.output_tokens if request.has_tokens else None,
        recomputed=request.recomputed_tokens,
        drafted=request.draft_tokens,
        accepted=request.accepted_tokens,
    )


def _seconds(request: FinishedRequest, trail: AdapterTrail) -> Seconds:
    return Seconds(
        queue=_rounded(request.queue_seconds),
        prefill=_rounded(request.prefill_seconds),
        decode=_rounded(request.decode_seconds),
        inference=_rounded(request.inference_seconds),
        preempted=round(request.preempted_seconds, DIGITS),
        preempted_prefill=round(request.preempted_prefill_seconds, DIGITS),
        ttft=_rounded(request.ttft_seconds),
        tpot=_rounded(request.tpot_seconds),
        e2e=round(request.e2e_seconds, DIGITS),
        forward=_rounded(request.forward_seconds),
        execute=_rounded(request.execute_seconds),
        adapter=_rounded(trail.waited_seconds),
    )


def _sampling(request: FinishedRequest) -> Sampling:
    params = request.params
    return Sampling(
        max_tokens=params.max_tokens,
        temperature=params.temperature,
        top_p=params.top_p,
        top_k=params.top_k,
        n=params.n,
        seed=params.seed,
    )


def _first(token_ids: tuple[int, ...] | None, limit: int) -> TokenIds | None:
    if token_ids is None:
        return None
    return TokenIds(token_ids=token_ids[:limit], truncated=len(token_ids) > limit)


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, DIGITS)


def _utc(at: int) -> str:
    seconds, rest = divmod(at, NANOSECONDS)
    moment = datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest // 1000)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
