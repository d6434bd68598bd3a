"""Requests in vLLM's words, and its log-probabilities in ours."""

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from hookline.events import NewTokens
from hookline.frozen import EMPTY
from hookline.request import GenerateRequest, TokenLogprobs
from hookline.sampling_values import SamplingValues
from hookline.structured_outputs import GrammarKind
from hookline_vllm_engine.binding import Binding
from hookline_vllm_engine.embedding import pooling_params

_SAME = (
    *("max_tokens", "min_tokens", "temperature", "top_p", "min_p"),
    *("repetition_penalty", "presence_penalty", "frequency_penalty"),
    *("ignore_eos", "logprobs", "prompt_logprobs"),
)
"""Parameters that have the same name and meaning."""
_GRAMMAR_OPTIONS = (
    *("disable_any_whitespace", "disable_additional_properties"),
    "whitespace_pattern",
)


def translated(
    request: GenerateRequest, vllm: Binding, adapters: Mapping[str, Any] = EMPTY
) -> Any:
    """Returns a request as an `EngineCoreRequest`, under its own number.

    Args:
        request: The request.
        vllm: VLLM.
        adapters: VLLM's requests for adapters, by their names.
    """
    facts = request.facts
    pooling = pooling_params(request, vllm)
    return vllm.EngineCoreRequest(
        request_id=str(request.request_id),
        prompt_token_ids=list(request.prompt_token_ids),
        mm_features=None,
        sampling_params=_sampling(request, vllm) if pooling is None else None,
        pooling_params=pooling,
        arrival_time=time.time(),
        lora_request=None if facts.lora is None else adapters[facts.lora],
        cache_salt=request.cache_salt,
        data_parallel_rank=None,
        priority=facts.priority,
        trace_headers=dict(facts.trace_context) or None,
        external_req_id=facts.client_id or str(request.request_id),
        session_id=facts.session_id,
    )


def _sampling(request: GenerateRequest, vllm: Binding) -> Any:
    params = request.params
    seed, wanted = params.seed, params.structured_outputs
    made = vllm.SamplingParams(
        **{name: getattr(params, name) for name in _SAME},
        top_k=params.top_k or 0,
        # -1 would be none.
        seed=None if seed is None else (seed + request.completion_index) % 2**63,
        stop_token_ids=list(params.stop_token_ids),
        detokenize=False,  # the front end looks for stop strings
        logit_bias=dict(params.logit_bias) or None,
        allowed_token_ids=_listed(params.allowed_token_ids),
        extra_args=dict(params.extra_args) or None,
        skip_reading_prefix_cache=request.skip_reading_prefix_cache or None,
        structured_outputs=None if wanted is None else _grammar(wanted, vllm),
    )
    if request.bad_words_token_ids:
        made._bad_words_token_ids = [  # noqa: SLF001 - from words vLLM makes it itself
            list(each) for each in request.bad_words_token_ids
        ]
    eos = list(request.eos_token_ids)
    made.update_from_generation_config({"eos_token_id": eos}, eos[0] if eos else None)
    return made


def _listed(token_ids: tuple[int, ...] | None) -> list[int] | None:
    return None if token_ids is None else list(token_ids)


def _grammar(wanted: object, vllm: Binding) -> Any:
    """Returns what the text must match, which is plain data after a wire."""

    def read(name: str) -> Any:
        if isinstance(wanted, dict):
            return wanted.get(name)
        return getattr(wanted, name, None)

    given = {str(kind): read(kind) for kind in GrammarKind}
    if given["choice"] is not None:
        given["choice"] = list(given["choice"])
    for name in ("json", "structural_tag"):
        if isinstance(given[name], dict):
            given[name] = json.dumps(given[name])
    options = {name: read(name) for name in _GRAMMAR_OPTIONS}
    found = {**given, **{name: each for name, each in options.items() if each}}
    return vllm.StructuredOutputsParams(**found)


def new_tokens(
    outputs: Iterable[Any],
    requests: Mapping[int, SamplingValues],
    drafts: Mapping[int, int],
    at: int,
) -> tuple[list[NewTokens], dict[int, Any]]:
    """Returns new tokens, and vectors of embedded requests by their numbers.

    Args:
        outputs: What vLLM tells of each request after a step.
        requests: The parameters of those that run, by their numbers.
        drafts: Numbers of draft tokens that were verified, likewise.
        at: Timestamp of the tokens, in ns.
    """
    tokens, pooled = [], {}
    for each in outputs:
        number, new = int(each.request_id), each.new_token_ids
        if not new:
            if each.pooling_output is not None:
                pooled[number] = each.pooling_output
            continue
        if (params := requests.get(number)) is None:
            continue
        logprobs, prompts = each.new_logprobs, each.new_prompt_logprobs_tensors
        if logprobs is None and prompts is None and not drafts:  # as most are
            tokens.append(NewTokens(number, at, new))
            continue
        logprobs = logprobs_of(logprobs, params)
        prompts = prompt_logprobs_of(prompts, params)
        drafted = drafts.get(number, 0)
        accepted = min(drafted, len(new) - 1)
        tokens.append(NewTokens(number, at, new, logprobs, prompts, drafted, accepted))
    return tokens, pooled


def logprobs_of(lists: Any, params: SamplingValues) -> list[TokenLogprobs] | None:
    """Returns the log-probabilities of a request's new tokens, as it asks for them."""
    if lists is None or params.logprobs is None:
        return None
    ids, logprobs = lists.logprob_token_ids, lists.logprobs
    ranks = lists.sampled_token_ranks
    return list(_entries(ids, logprobs, ranks, params.logprobs))


def prompt_logprobs_of(
    tensors: Any, params: SamplingValues
) -> list[TokenLogprobs] | None:
    """Returns the log-probabilities of a prompt's tokens but for the first."""
    if tensors is None or params.prompt_logprobs is None:
        return None
    ids, logprobs, ranks, *_ = tensors
    return list(_entries(ids, logprobs, ranks, params.prompt_logprobs))


def _entries(ids: Any, logprobs: Any, ranks: Any, most: int) -> Iterator[TokenLogprobs]:
    """Yields each position's; a batch has as many as its greediest request wants."""
    rows = zip(ids.tolist(), logprobs.tolist(), ranks.tolist(), strict=True)
    for row, values, rank in rows:
        yield TokenLogprobs(row[: most + 1], values[: most + 1], rank)
