"""Token counts of a request."""

import msgspec
from msgspec import UNSET, UnsetType


class PromptTokensDetails(msgspec.Struct, frozen=True):
    """Sources of the prompt's tokens."""

    cached_tokens: int


class CompletionTokensDetails(msgspec.Struct, frozen=True, kw_only=True):
    """What a part of the completion's tokens was for."""

    reasoning_tokens: int


class Usage(msgspec.Struct, frozen=True):
    """Totals over all choices; each prompt counts once.

    `completion_tokens_details` is present if reasoning is separated.
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
    reasoning_tokens: int | None = None,
) -> Usage:
    """Returns a `Usage` with its total."""
    details: CompletionTokensDetails | UnsetType = UNSET
    if reasoning_tokens is not None:
        details = CompletionTokensDetails(reasoning_tokens=reasoning_tokens)
    return Usage(
        prompt_tokens,
        completion_tokens,
        prompt_tokens + completion_tokens,
        PromptTokensDetails(cached_tokens),
        details,
    )
