"""Token counts of a request."""

import msgspec
from msgspec import UNSET, UnsetType


class PromptTokensDetails(msgspec.Struct, frozen=True):
    """Sources of the prompt's tokens."""

    cached_tokens: int


class CompletionTokensDetails(msgspec.Struct, frozen=True, kw_only=True):
    """Draft tokens of speculative decoding, and tokens of the reasoning."""

    accepted_prediction_tokens: int | UnsetType = UNSET
    rejected_prediction_tokens: int | UnsetType = UNSET
    reasoning_tokens: int | UnsetType = UNSET


class Usage(msgspec.Struct, frozen=True):
    """Totals over all choices; each prompt counts once.

    `completion_tokens_details` is present if draft tokens were verified, or reasoning
    is separated.
    """

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails
    completion_tokens_details: CompletionTokensDetails | UnsetType = UNSET


def make_usage(
    prompt_tokens: int,
    completion_tokens: int,
    *,
    cached_tokens: int,
    draft_tokens: int = 0,
    accepted_tokens: int = 0,
    reasoning_tokens: int | None = None,
) -> Usage:
    """Returns a `Usage` with its total."""
    details: CompletionTokensDetails | UnsetType = UNSET
    if draft_tokens or reasoning_tokens is not None:
        rejected = draft_tokens - accepted_tokens
        details = CompletionTokensDetails(
            accepted_prediction_tokens=accepted_tokens if draft_tokens else UNSET,
            rejected_prediction_tokens=rejected if draft_tokens else UNSET,
            reasoning_tokens=UNSET if reasoning_tokens is None else reasoning_tokens,
        )
    return Usage(
        prompt_tokens,
        completion_tokens,
        prompt_tokens + completion_tokens,
        PromptTokensDetails(cached_tokens),
        details,
    )
