"""The fields common to both completion endpoints."""

from collections.abc import Mapping

import msgspec

from hookline.exceptions import RequestError
from hookline.request_limits import (
    LOGPROB_ENTRIES,
    LOGPROBS,
    PARAMETER_ENTRIES,
    N,
    check_token_lists,
    check_words,
)
from hookline.sampling_params import SamplingParams
from hookline.sampling_values import SamplingDefaults
from hookline_server.protocol.extra_args import check_extra_args
from hookline_server.protocol.parameter_types import (
    HIGHEST_TEMPERATURE,
    BadWords,
    Count,
    LastTokens,
    Logprobs,
    Never,
    NotNegative,
    TokenIds,
    check_cache_salt,
    check_truncation,
)
from hookline_server.protocol.structured_outputs import (
    STRUCTURE_FIELDS,
    StructuredRequest,
    asked_structures,
    structured_outputs,
)
from hookline_server.protocol.transfer_params import check_transfer_params

LARGEST_BIAS = 100.0
"""Larger biases count as this, as in vLLM."""

BUDGET_ARGUMENT = "thinking_token_budget"
"""The argument of logits processors that limit the reasoning."""

_SAME = (
    *("n", "min_tokens", "temperature", "top_p", "min_p", "repetition_penalty"),
    *("presence_penalty", "frequency_penalty", "ignore_eos", "skip_special_tokens"),
    *("include_stop_str_in_output", "seed", "speculation"),
)
"""Fields that the engine's parameters have under the same name and type."""

_LISTS = ("allowed_token_ids", "bad_words", "stop", "stop_token_ids")
"""Fields that become tuples there."""

HARMLESS: Mapping[str, tuple[object, ...]] = {
    "modalities": (["text"],),
}
"""Values that request no more than the default behaviour."""

WHAT: Mapping[str, str] = {
    "audio": "audio output",
    "modalities": "non-text output",
    "prompt_embeds": "prompt embeddings",
    "suffix": "completion before a suffix",
    "use_beam_search": "beam search",
}
"""Features that are not supported, by the fields that ask for them."""


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


def check_generation(request: GenerationRequest) -> None:
    """Checks delivery and options; raises `RequestError` if they are invalid."""
    if request.stream_options is not None and not request.stream:
        raise RequestError(
            "stream_options requires stream to be true", param="stream_options"
        )
    if request.cache_salt is not None:
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
    if request.truncate_prompt_tokens is not None:
        check_truncation(request.truncate_prompt_tokens)
    if request.prompt_logprobs is not None:
        _check_prompt_logprobs(request, request.prompt_logprobs)
    refuse(request)


def _check_prompt_logprobs(request: GenerationRequest, count: int) -> None:
    if request.stream:
        raise RequestError(
            "prompt_logprobs requires stream to be false", param="prompt_logprobs"
        )
    if count < 0:
        raise RequestError(
            "prompt_logprobs must be at least 0", param="prompt_logprobs"
        )
    LOGPROBS.check(count, param="prompt_logprobs")


def refuse(request: msgspec.Struct, what: Mapping[str, str] = WHAT) -> None:
    """Raises `RequestError` if a field requests an unsupported feature.

    Such fields are refused, never ignored.

    Args:
        request: The request.
        what: Unsupported features, by the names of the fields that ask for them.
    """
    for name in request.__struct_fields__:
        if name not in what:
            continue
        value = getattr(request, name)
        if value and value not in HARMLESS.get(name, ()):
            raise RequestError(f"{name}: {what[name]} is not supported", param=name)


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
    if request.n is not None:
        N.check(request.n)
    stop = [request.stop] if isinstance(request.stop, str) else request.stop or ()
    if stop or request.bad_words:
        check_words(stop, request.bad_words or ())
    allowed, stop_ids = request.allowed_token_ids, request.stop_token_ids
    if request.logit_bias or allowed or stop_ids:
        check_token_lists(
            vocab_size,
            logit_bias=request.logit_bias or {},
            allowed_token_ids=allowed or (),
            stop_token_ids=stop_ids or (),
        )
    if num_prompts > 1:
        lists = (request.logit_bias, allowed, stop_ids, request.bad_words)
        entries = sum(len(each) for each in lists if each)
        PARAMETER_ENTRIES.check(entries * num_prompts)


def check_kept_logprobs(
    params: SamplingParams, max_model_len: int, *, num_prompts: int = 1
) -> None:
    """Checks how many log-probabilities of output a response may have as a whole.

    Raises:
        LimitError: They are too many to be kept until the end.
    """
    if params.logprobs is None:
        return
    tokens = params.n * min(params.max_tokens or max_model_len, max_model_len)
    LOGPROB_ENTRIES.check(num_prompts * tokens * (params.logprobs + 1))


def sampling_params(
    request: GenerationRequest,
    defaults: SamplingDefaults,
    *,
    max_tokens: int | None,
    logprobs: int | None = None,
    prompt_logprobs: int | None = None,
) -> SamplingParams:
    """Returns the engine's parameters of a request.

    Args:
        request: The request.
        defaults: What its silent fields mean.
        max_tokens: Maximum number of tokens to generate; None is the default.
        logprobs: Number of likeliest tokens to return at each output position.
        prompt_logprobs: Number of likeliest tokens to return at each prompt position.

    Raises:
        RequestError: A value is invalid.
    """
    if request.temperature is not None and request.temperature > HIGHEST_TEMPERATURE:
        raise RequestError(
            f"temperature must be at most {HIGHEST_TEMPERATURE:g}, not "
            f"{request.temperature:g}",
            param="temperature",
        )
    given = {"max_tokens": None, **defaults.values, **_given(request)}
    if max_tokens is not None:
        given["max_tokens"] = max_tokens
    if logprobs is not None:
        given["logprobs"] = logprobs
    if prompt_logprobs is not None:
        given["prompt_logprobs"] = prompt_logprobs
    for name in STRUCTURE_FIELDS:  # most requests have none
        if getattr(request, name) is not None:
            if asked := asked_structures(request):
                given["structured_outputs"] = structured_outputs(asked)
            break
    return SamplingParams(**given)  # type: ignore[arg-type]


def _given(request: GenerationRequest) -> dict[str, object]:
    """Returns the engine's parameters that need no more than their own field."""
    given: dict[str, object] = {}
    for name in _SAME:
        if (value := getattr(request, name)) is not None:
            given[name] = value
    for name in _LISTS:
        if (value := getattr(request, name)) is not None:
            given[name] = (value,) if isinstance(value, str) else tuple(value)
    if request.top_k is not None:  # clients disable it by -1 or 0
        given["top_k"] = None if request.top_k in (-1, 0) else request.top_k
    if request.logit_bias:
        given["logit_bias"] = {
            token_id: min(max(bias, -LARGEST_BIAS), LARGEST_BIAS)
            for token_id, bias in request.logit_bias.items()
        }
    arguments, budget = request.vllm_xargs, request.thinking_token_budget
    if budget is not None and budget >= 0:  # as in vLLM, -1 sets none
        arguments = {**(arguments or {}), BUDGET_ARGUMENT: budget}
    if arguments is not None:
        given["extra_args"] = arguments
    return given
