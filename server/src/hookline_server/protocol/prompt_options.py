"""How much of a prompt is used, and what a response says about its tokens."""

from hookline.request_limits import LOGPROB_ENTRIES, RETURNED_TOKEN_IDS
from hookline.sampling_params import SamplingParams
from hookline_server.protocol.generation import GenerationRequest
from hookline_server.protocol.parameter_types import AS_MANY_AS_FIT


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
    if request.stream:
        return
    entries = 0
    if request.prompt_logprobs is not None:
        entries += request.prompt_logprobs + 1
    if has_echo and params.logprobs is not None:
        entries += params.logprobs + 1
    LOGPROB_ENTRIES.check(num_tokens * copies * entries, param="prompt_logprobs")
