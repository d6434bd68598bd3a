"""How much of a prompt is used, and what a response says about its tokens."""

from hookline.exceptions import RequestError
from hookline.request_limits import LOGPROB_ENTRIES, LOGPROBS, RETURNED_TOKEN_IDS
from hookline.sampling_params import SamplingParams
from hookline_server.protocol.generation import GenerationRequest

AS_MANY_AS_FIT = -1
"""Value of `truncate_prompt_tokens`."""


def check_truncation(most: int | None) -> None:
    """Checks `truncate_prompt_tokens`; raises `RequestError` if it is invalid."""
    if most is not None and most < 1 and most != AS_MANY_AS_FIT:
        raise RequestError(
            "truncate_prompt_tokens must be at least 1, or -1 for as many as fit into "
            "the context",
            param="truncate_prompt_tokens",
        )


def check_prompt_options(request: GenerationRequest) -> None:
    """Checks the options; raises `RequestError` if they are invalid."""
    check_truncation(request.truncate_prompt_tokens)
    if request.prompt_logprobs is None:
        return
    if request.is_streamed:
        raise RequestError(
            "prompt_logprobs requires stream to be false", param="prompt_logprobs"
        )
    if request.prompt_logprobs < 0:
        raise RequestError(
            "prompt_logprobs must be at least 0", param="prompt_logprobs"
        )
    LOGPROBS.check(request.prompt_logprobs, param="prompt_logprobs")


def most_prompt_tokens(
    request: GenerationRequest, max_model_len: int, max_tokens: int | None
) -> int | None:
    """Returns how many of a prompt's last tokens are kept; None keeps all.

    Args:
        request: The request.
        max_model_len: The model's context length.
        max_tokens: Tokens to generate; None if the context's end limits them.
    """
    most = request.truncate_prompt_tokens
    if most != AS_MANY_AS_FIT:
        return most
    return max(1, max_model_len - (max_tokens or 1))


def check_prompt_tokens(
    request: GenerationRequest,
    params: SamplingParams,
    num_tokens: int,
    *,
    copies: int = 1,
    has_echo: bool = False,
) -> None:
    """Checks how much a response says about its prompts' tokens.

    Args:
        request: The request.
        params: Its sampling parameters.
        num_tokens: Tokens of all its prompts.
        copies: How often the response repeats each prompt.
        has_echo: Whether the log-probabilities of the output include the prompt's.

    Raises:
        LimitError: It is too much.
    """
    if request.return_token_ids:
        RETURNED_TOKEN_IDS.check(num_tokens * copies)
    if request.is_streamed:
        return
    entries = 0
    if request.prompt_logprobs is not None:
        entries += request.prompt_logprobs + 1
    if has_echo and params.logprobs is not None:
        entries += params.logprobs + 1
    LOGPROB_ENTRIES.check(num_tokens * copies * entries, param="prompt_logprobs")
