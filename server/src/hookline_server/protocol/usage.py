"""Token counts of a request."""

import msgspec


class PromptTokensDetails(msgspec.Struct, frozen=True):
    """Sources of the prompt's tokens."""

    cached_tokens: int


class CompletionTokensDetails(msgspec.Struct, frozen=True):
    """Draft tokens of speculative decoding: accepted and rejected ones."""

    accepted_prediction_tokens: int
    rejected_prediction_tokens: int


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Totals over all choices; each prompt counts once.

    `completion_tokens_details` is present if draft tokens were verified.
    """

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails
    completion_tokens_details: CompletionTokensDetails | None = None


def make_usage(
    prompt_tokens: int,
    completion_tokens: int,
    *,
    cached_tokens: int,
    draft_tokens: int = 0,
    accepted_tokens: int = 0,
) -> Usage:
    """Returns a `Usage` with its total."""
    details = None
    if draft_tokens:
        details = CompletionTokensDetails(
            accepted_tokens, draft_tokens - accepted_tokens
        )
    return Usage(
        prompt_tokens,
        completion_tokens,
        prompt_tokens + completion_tokens,
        PromptTokensDetails(cached_tokens),
        details,
    )
