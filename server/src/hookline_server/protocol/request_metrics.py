"""The metrics of one request in its response, under vLLM's names."""

import msgspec
from msgspec import UNSET, UnsetType

from hookline.outputs import RequestMetrics

_MILLISECONDS = 1000.0


class SpeculativeMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """How many of the drafts the model accepted.

    Attributes:
        mean_acceptance_length: Tokens of a step with drafts, on average.
        draft_acceptance_rate: Share of the draft tokens that were accepted.
        acceptance_histogram: Steps with drafts by how many of these were accepted.
        num_spec_steps: Steps with drafts.
        num_accepted_draft_tokens: Draft tokens that were accepted.
        num_draft_tokens: Draft tokens that were verified.
        num_spec_tokens: Most draft tokens of a step.
    """

    mean_acceptance_length: float | None
    draft_acceptance_rate: float | None
    acceptance_histogram: list[int]
    num_spec_steps: int
    num_accepted_draft_tokens: int
    num_draft_tokens: int
    num_spec_tokens: int


class ResponseMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """Times and drafts of one request; those that are switched off are absent.

    Attributes:
        time_to_first_token_ms: From the first step to the first token.
        generation_time_ms: From the first token to the last.
        queue_time_ms: From the engine's queue to the first step.
        mean_itl_ms: Generation time per token after the first.
        tokens_per_second: Tokens per second of the generation time.
        speculative_decoding: The drafts; null if none were verified.
    """

    time_to_first_token_ms: float | UnsetType | None = UNSET
    generation_time_ms: float | UnsetType | None = UNSET
    queue_time_ms: float | UnsetType | None = UNSET
    mean_itl_ms: float | UnsetType | None = UNSET
    tokens_per_second: float | UnsetType | None = UNSET
    speculative_decoding: SpeculativeMetrics | UnsetType | None = UNSET


def response_metrics(
    metrics: RequestMetrics, output_tokens: int, *, has_times: bool, has_drafts: bool
) -> ResponseMetrics:
    """Returns the metrics of a request for its response.

    Args:
        metrics: Its metrics.
        output_tokens: Tokens that were generated.
        has_times: Whether to include the times.
        has_drafts: Whether to include the drafts.
    """
    drafts = _speculative(metrics) if has_drafts else UNSET
    if not has_times:
        return ResponseMetrics(speculative_decoding=drafts)
    decode = metrics.decode_seconds
    return ResponseMetrics(
        time_to_first_token_ms=_milliseconds(metrics.prefill_seconds),
        generation_time_ms=_milliseconds(decode),
        queue_time_ms=_milliseconds(metrics.queue_seconds),
        mean_itl_ms=_milliseconds(metrics.tpot_seconds),
        tokens_per_second=output_tokens / decode if decode else None,
        speculative_decoding=drafts,
    )


def _speculative(metrics: RequestMetrics) -> SpeculativeMetrics | None:
    histogram = metrics.steps_by_accepted
    if not (steps := sum(histogram)):
        return None
    accepted = sum(number * count for number, count in enumerate(histogram))
    return SpeculativeMetrics(
        mean_acceptance_length=1 + accepted / steps,
        draft_acceptance_rate=accepted / metrics.draft_tokens,
        acceptance_histogram=list(histogram),
        num_spec_steps=steps,
        num_accepted_draft_tokens=accepted,
        num_draft_tokens=metrics.draft_tokens,
        num_spec_tokens=len(histogram) - 1,
    )


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * _MILLISECONDS
