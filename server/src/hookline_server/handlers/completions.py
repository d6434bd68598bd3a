"""`/v1/completions`."""

from collections.abc import Sequence

from aiohttp import web

from hookline.sampling_params import SamplingParams
from hookline.structured_outputs import PARAM
from hookline_server.answers.completion import CompletionAnswer, Echo
from hookline_server.context import SETTINGS
from hookline_server.engine import ServingEngine
from hookline_server.handlers.admission import admit
from hookline_server.handlers.common import make_identity, rejections_counted
from hookline_server.handlers.delivery import deliver
from hookline_server.openapi.operation import (
    GENERATION_ERRORS,
    Operation,
    Tag,
    described,
)
from hookline_server.protocol.completion import (
    DEFAULT_MAX_TOKENS,
    Completion,
    CompletionRequest,
    Prompt,
    check,
    prompts,
)
from hookline_server.protocol.errors import ErrorBody
from hookline_server.protocol.generation import (
    check_logprobs,
    check_sizes,
    sampling_params,
)
from hookline_server.protocol.prompt_options import (
    check_prompt_tokens,
    most_prompt_tokens,
)
from hookline_server.protocol.structured_outputs import asking_field, field_named
from hookline_server.protocol.tokens import check_tokens
from hookline_server.tenants import client_of


@described(
    Operation(
        tag=Tag.GENERATION,
        body=CompletionRequest,
        answer=Completion,
        events=(Completion, ErrorBody),
        errors=GENERATION_ERRORS,
        generates=True,
    )
)
async def completions(request: web.Request) -> web.StreamResponse:
    """Generates completions of each prompt."""
    with rejections_counted(request):
        admission = await admit(request, CompletionRequest, check)
        engine, body = admission.engine, admission.body
        max_model_len = engine.facts.model.max_model_len
        most_tokens = most_prompt_tokens(body, max_model_len, _max_tokens(body))
        given = prompts(body, max_model_len, most_tokens=most_tokens)
        check_sizes(body, engine.facts.model.vocab_size, num_prompts=len(given))
        params = _params(body)
        check_logprobs(body, params, max_model_len, num_prompts=len(given))
        found = await _tokenized(
            engine, body, given, client_of(request), most_tokens=most_tokens
        )
        check_prompt_tokens(
            body,
            params,
            sum(len(each) for each in found),
            copies=params.n,
            has_echo=bool(body.echo),
        )
        is_cut = most_tokens is not None
        echo = await _echo(engine, body, found if is_cut else given)
    identity = make_identity(request, "cmpl-")
    batch = await admission.batch(
        identity, found, params, may_be_shorter=body.max_tokens is None
    )
    settings = request.app[SETTINGS].responses
    answer = CompletionAnswer(identity, body, engine, echo, settings)
    with field_named(body):
        return await deliver(
            request, batch, answer, grammar_field=asking_field(body) or PARAM
        )


def _params(body: CompletionRequest) -> SamplingParams:
    echoed = body.logprobs if body.echo else None
    counts = [each for each in (body.prompt_logprobs, echoed) if each is not None]
    return sampling_params(
        body,
        max_tokens=_max_tokens(body),
        logprobs=body.logprobs,
        prompt_logprobs=max(counts, default=None),
    )


def _max_tokens(body: CompletionRequest) -> int:
    given = DEFAULT_MAX_TOKENS if body.max_tokens is None else body.max_tokens
    # With echo, max_tokens may be 0, but the engine generates at least one token.
    return max(given, 1) if body.echo else given


async def _tokenized(
    engine: ServingEngine,
    body: CompletionRequest,
    found: Sequence[Prompt],
    client: str,
    *,
    most_tokens: int | None,
) -> Sequence[Prompt]:
    """Tokenizes texts here if the engine would do it differently, or too late."""
    has_special = body.add_special_tokens is not False
    is_scored = body.prompt_logprobs is not None or (
        body.echo and body.logprobs is not None
    )
    is_counted = body.return_token_ids or is_scored
    if has_special and most_tokens is None and not is_counted:
        return found
    tokens = [
        await engine.encode(
            prompt,
            add_special_tokens=has_special,
            is_prompt=most_tokens is None,
            client=client,
        )
        if isinstance(prompt, str)
        else prompt
        for prompt in found
    ]
    return tokens if most_tokens is None else [ids[-most_tokens:] for ids in tokens]


async def _echo(
    engine: ServingEngine, body: CompletionRequest, found: Sequence[Prompt]
) -> Echo:
    if not body.echo:
        return Echo()
    texts = [await _text(engine, prompt) for prompt in found]
    return Echo(texts, is_alone=body.max_tokens == 0)


async def _text(engine: ServingEngine, prompt: Prompt) -> str:
    if isinstance(prompt, str):
        return prompt
    check_tokens("prompt", prompt, engine.facts.model.vocab_size)
    return await engine.decode(prompt)
