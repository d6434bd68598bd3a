"""`/v1/completions`."""

from collections.abc import Sequence

from aiohttp import web

from hookline.sampling_params import SamplingParams
from hookline_server.answers.completion import CompletionAnswer, Echo
from hookline_server.engine import ServingEngine
from hookline_server.handlers.common import (
    check_model,
    make_identity,
    ready_engine,
    rejections_counted,
)
from hookline_server.handlers.delivery import deliver
from hookline_server.protocol.completion import (
    DEFAULT_MAX_TOKENS,
    CompletionRequest,
    Prompt,
    check,
    prompts,
)
from hookline_server.protocol.generation import sampling_params
from hookline_server.protocol.tokens import check_tokens
from hookline_server.protocol.wire import decode
from hookline_server.request_body import read_body
from hookline_server.request_identity import request_facts, requested_slo
from hookline_server.streams import Submission


async def completions(request: web.Request) -> web.StreamResponse:
    """Generates completions of each prompt."""
    engine = ready_engine(request)
    with rejections_counted(request):
        slo = requested_slo(request)
        asked = decode(await read_body(request), CompletionRequest)
        check_model(engine, asked.model)
        check(asked)
        params = _params(asked)
        found = await _tokenized(engine, asked, prompts(asked))
        echo = await _echo(engine, asked, found)
    submission = Submission(
        prompts=found,
        params=params,
        facts=request_facts(request, priority=asked.priority or 0, slo=slo),
        cache_salt=asked.cache_salt,
        is_streamed=asked.is_streamed,
        may_be_shorter=asked.max_tokens is None,
        kv_transfer_params=asked.kv_transfer_params,
    )
    identity = make_identity(request, "cmpl")
    return await deliver(
        request, submission, CompletionAnswer(identity, asked, engine, echo)
    )


def _params(asked: CompletionRequest) -> SamplingParams:
    wanted = DEFAULT_MAX_TOKENS if asked.max_tokens is None else asked.max_tokens
    return sampling_params(
        asked,
        # With echo, max_tokens may be 0, but the engine generates at least one token.
        max_tokens=max(wanted, 1) if asked.echo else wanted,
        logprobs=asked.logprobs,
        prompt_logprobs=asked.logprobs if asked.echo else None,
    )


async def _tokenized(
    engine: ServingEngine, asked: CompletionRequest, found: Sequence[Prompt]
) -> Sequence[Prompt]:
    length = asked.truncate_prompt_tokens
    has_special = asked.add_special_tokens is not False
    if has_special and length is None:
        return found
    tokens = [
        await engine.encode(prompt, add_special_tokens=has_special)
        if isinstance(prompt, str)
        else prompt
        for prompt in found
    ]
    return tokens if length is None else [ids[-length:] for ids in tokens]


async def _echo(
    engine: ServingEngine, asked: CompletionRequest, found: Sequence[Prompt]
) -> Echo:
    if not asked.echo:
        return Echo()
    texts = [await _text(engine, prompt) for prompt in found]
    return Echo(texts, is_alone=asked.max_tokens == 0)


async def _text(engine: ServingEngine, prompt: Prompt) -> str:
    if isinstance(prompt, str):
        return prompt
    check_tokens("prompt", prompt, engine.facts.vocab_size)
    return await engine.decode(prompt)
