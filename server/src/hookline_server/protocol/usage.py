"""How many tokens a request took."""

import msgspec


class PromptTokensDetails(msgspec.Struct, frozen=True):
    """Where the prompt's tokens came from."""

    cached_tokens: int


class CompletionTokensDetails(msgspec.Struct, frozen=True):
    """Of the drafts that were verified: what became output, and what did not."""

    accepted_prediction_tokens: int
    rejected_prediction_tokens: int


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Sums over all choices; a prompt counts once, however many its choices.

    The details of the completion are there if anything was speculated.
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
    """A `Usage` whose sum is right."""
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
