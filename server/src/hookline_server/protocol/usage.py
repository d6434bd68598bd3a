"""How many tokens a request took."""

import msgspec


class PromptTokensDetails(msgspec.Struct, frozen=True):
    """Where the prompt's tokens came from."""

    cached_tokens: int


class Usage(msgspec.Struct, frozen=True):
    """Sums over all choices; a prompt counts once, however many its choices."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails


def make_usage(
    prompt_tokens: int, completion_tokens: int, *, cached_tokens: int
) -> Usage:
    """A `Usage` whose sum is right."""
    return Usage(
        prompt_tokens,
        completion_tokens,
        prompt_tokens + completion_tokens,
        PromptTokensDetails(cached_tokens),
    )
