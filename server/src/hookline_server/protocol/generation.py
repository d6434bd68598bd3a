"""The fields common to both completion endpoints."""

from typing import TypeVar

import msgspec

from hookline.exceptions import RequestError
from hookline.request_limits import (
    LOGPROB_ENTRIES,
    PARAMETER_ENTRIES,
    N,
    check_token_lists,
    check_words,
)
from hookline.sampling_params import SamplingParams
from hookline_server.protocol.extra_args import Argument, check_extra_args
from hookline_server.protocol.parameter_types import (
    HIGHEST_TEMPERATURE,
    MAX_CACHE_SALT_LENGTH,
    BadWords,
    Count,
    LastTokens,
    Logprobs,
    Never,
    NotNegative,
    TokenIds,
)
from hookline_server.protocol.structured_outputs import (
    StructuredRequest,
    structured_outputs,
)
from hookline_server.protocol.transfer_params import check_transfer_params

LARGEST_BIAS = 100.0
"""Larger biases count as this, as in vLLM."""

BUDGET_ARGUMENT = "thinking_token_budget"
"""The argument of logits processors that limit the reasoning."""

DEFAULTS = SamplingParams(max_tokens=None)
"""The parameters of a request that sets none."""

T = TypeVar("T")


class StreamOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a stream."""

    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class GenerationRequest(StructuredRequest, frozen=True, kw_only=True):
    """Sampling, stopping and delivery; null means a field's default."""

    max_tokens: NotNegative | None = None
    n: Count | None = None
    stream_options: StreamOptions | None = None
    allowed_token_ids: TokenIds | None = None
    bad_words: BadWords | None = None
    speculation: bool | None = None
    use_beam_search: Never | None = None
    prompt_logprobs: Logprobs | None = None
    truncate_prompt_tokens: LastTokens | None = None
    return_token_ids: bool | None = None
    return_tokens_as_token_ids: bool | None = None
    kv_transfer_params: dict[str, object] | None = None

    @property
    def has_usage_chunk(self) -> bool:
        """Whether the last chunk has the usage."""
        return bool(self.stream_options and self.stream_options.include_usage)

    @property
    def has_continuous_usage(self) -> bool:
        """Whether each chunk has the usage so far."""
        options = self.stream_options
        return self.has_usage_chunk and bool(options and options.continuous_usage_stats)


def check_cache_salt(salt: str | None) -> None:
    """Checks its length; raises `RequestError` if it is invalid."""
    if salt is not None and not 0 < len(salt) <= MAX_CACHE_SALT_LENGTH:
        raise RequestError(
            f"cache_salt must have 1 to {MAX_CACHE_SALT_LENGTH} characters",
            param="cache_salt",
        )


def check_delivery(request: GenerationRequest) -> None:
    """Checks the options; raises `RequestError` if they are invalid."""
    if request.stream_options is not None and not request.is_streamed:
        raise RequestError(
            "stream_options requires stream to be true", param="stream_options"
        )
    check_cache_salt(request.cache_salt)
    if request.kv_transfer_params is not None:
        check_transfer_params(request.kv_transfer_params)
    if request.vllm_xargs is not None:
        check_extra_args(request.vllm_xargs)
    if request.thinking_token_budget is not None and request.thinking_token_budget < -1:
        raise RequestError(
            "thinking_token_budget must be at least 0, or -1 for none",
            param="thinking_token_budget",
        )


def check_sizes(
    request: GenerationRequest, vocab_size: int, *, num_prompts: int = 1
) -> None:
    """Checks the lengths of the parameters' lists, before anything is copied.

    Args:
        request: The request.
        vocab_size: The model's number of token ids.
        num_prompts: Prompts that are sent with these parameters.

    Raises:
        LimitError: One is too long, or all are for this many prompts.
    """
    N.check(request.n or 1)
    stop = [request.stop] if isinstance(request.stop, str) else request.stop or ()
    check_words(stop, request.bad_words or ())
    check_token_lists(
        vocab_size,
        logit_bias=request.logit_bias or {},
        allowed_token_ids=request.allowed_token_ids or (),
        stop_token_ids=request.stop_token_ids or (),
    )
    if num_prompts > 1:
        lists = (
            request.logit_bias,
            request.allowed_token_ids,
            request.stop_token_ids,
            request.bad_words,
        )
        entries = sum(len(each) for each in lists if each)
        PARAMETER_ENTRIES.check(entries * num_prompts)


def check_logprobs(
    request: GenerationRequest,
    params: SamplingParams,
    max_model_len: int,
    *,
    num_prompts: int = 1,
) -> None:
    """Checks how many log-probabilities of output a response may have, if not streamed.

    Raises:
        LimitError: They are too many to be kept until the end.
    """
    if not request.is_streamed:
        check_kept_logprobs(params, max_model_len, num_prompts=num_prompts)


def check_kept_logprobs(
    params: SamplingParams, max_model_len: int, *, num_prompts: int = 1
) -> None:
    """Checks how many log-probabilities of output there may be; raises `LimitError`."""
    if params.logprobs is None:
        return
    tokens = params.n * min(params.max_tokens or max_model_len, max_model_len)
    LOGPROB_ENTRIES.check(num_prompts * tokens * (params.logprobs + 1))


def sampling_params(
    request: GenerationRequest,
    *,
    max_tokens: int | None,
    logprobs: int | None = None,
    prompt_logprobs: int | None = None,
) -> SamplingParams:
    """Returns the engine's parameters; raises `RequestError` for invalid values."""
    if request.temperature is not None and request.temperature > HIGHEST_TEMPERATURE:
        raise RequestError(
            f"temperature must be at most {HIGHEST_TEMPERATURE:g}, not "
            f"{request.temperature:g}",
            param="temperature",
        )
    given: dict[str, object] = {
        "n": request.n,
        "max_tokens": max_tokens,
        "min_tokens": request.min_tokens,
        "temperature": request.temperature,
        "top_k": _top_k(request.top_k),
        "top_p": request.top_p,
        "min_p": request.min_p,
        "repetition_penalty": request.repetition_penalty,
        "presence_penalty": request.presence_penalty,
        "frequency_penalty": request.frequency_penalty,
        "logit_bias": _logit_bias(request.logit_bias),
        "allowed_token_ids": _as_tuple(request.allowed_token_ids),
        "bad_words": _as_tuple(request.bad_words),
        "stop": _stop(request.stop),
        "stop_token_ids": _as_tuple(request.stop_token_ids),
        "ignore_eos": request.ignore_eos,
        "include_stop_str_in_output": request.include_stop_str_in_output,
        "skip_special_tokens": request.skip_special_tokens,
        "logprobs": logprobs,
        "prompt_logprobs": prompt_logprobs,
        "seed": request.seed,
        "structured_outputs": structured_outputs(request),
        "speculation": request.speculation,
        "extra_args": _extra_args(request),
    }
    named = {name: value for name, value in given.items() if value is not None}
    return msgspec.structs.replace(DEFAULTS, **named)


def _extra_args(request: GenerationRequest) -> dict[str, Argument] | None:
    budget = request.thinking_token_budget
    # As in vLLM, -1 sets no budget.
    if budget is None or budget < 0:
        return request.vllm_xargs
    return {**(request.vllm_xargs or {}), BUDGET_ARGUMENT: budget}


def _top_k(top_k: int | None) -> int | None:
    # Clients disable top_k by -1 or 0.
    return None if top_k in (-1, 0) else top_k


def _logit_bias(given: dict[int, float] | None) -> dict[int, float] | None:
    if not given:
        return None
    return {
        token_id: min(max(bias, -LARGEST_BIAS), LARGEST_BIAS)
        for token_id, bias in given.items()
    }


def _stop(stop: str | list[str] | None) -> tuple[str, ...] | None:
    return (stop,) if isinstance(stop, str) else _as_tuple(stop)


def _as_tuple(values: list[T] | None) -> tuple[T, ...] | None:
    return None if values is None else tuple(values)
