"""`/v1/completions`."""

from collections.abc import Sequence

from aiohttp import web

from hookline.exceptions import RequestError
from hookline.frontend.stop_strings import StopScope
from hookline.structured_outputs import PARAM
from hookline_processes.fair_queue import Client
from hookline_server.answers.completion import CompletionAnswer, Echo
from hookline_server.answers.silent_requests import completed
from hookline_server.context import PARSERS, SETTINGS
from hookline_server.engine import ServingEngine
from hookline_server.handlers.admission import admit
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
    check_kept_logprobs,
    check_sizes,
    sampling_params,
)
from hookline_server.protocol.prompt_options import (
    check_prompt_tokens,
    most_prompt_tokens,
)
from hookline_server.protocol.structured_outputs import asking_field
from hookline_server.protocol.tokens import check_tokens
from hookline_server.replies.reading import completion_scopes


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
    admission = await admit(request, CompletionRequest, check)
    settings = request.app[SETTINGS].responses
    engine, model = admission.engine, admission.engine.facts.model
    decides = settings.return_tokens_as_token_ids or settings.enable_force_include_usage
    body = completed(admission.body, settings) if decides else admission.body
    silent = int(model.sampling.values.get("max_tokens", DEFAULT_MAX_TOKENS))
    max_tokens = silent if body.max_tokens is None else body.max_tokens
    # An echo may be alone, but the engine generates at least one token.
    max_tokens = max(max_tokens, int(bool(body.echo)))
    most_tokens = None
    if body.truncate_prompt_tokens is not None:
        most_tokens = most_prompt_tokens(body, model.max_model_len, max_tokens)
    given = prompts(body, model.max_model_len, most_tokens=most_tokens)
    check_sizes(body, model.vocab_size, num_prompts=len(given))
    params = sampling_params(
        body,
        model.sampling,
        max_tokens=max_tokens,
        logprobs=body.logprobs,
        prompt_logprobs=_prompt_logprobs(body) if body.echo else body.prompt_logprobs,
    )
    if params.logprobs is not None and not body.stream:
        check_kept_logprobs(params, model.max_model_len, num_prompts=len(given))
    found: Sequence[Prompt] = given
    is_counted = body.return_token_ids or params.prompt_logprobs is not None
    # Here if the engine would do it differently, or too late.
    if is_counted or most_tokens is not None or body.add_special_tokens is False:
        client = admission.identity.client
        found = await _tokenized(engine, body, given, client, most_tokens=most_tokens)
    if is_counted:
        check_prompt_tokens(
            body,
            params,
            sum(map(len, found)),
            copies=params.n,
            has_echo=bool(body.echo),
        )
    echo = Echo()
    if body.echo:
        texts = given if most_tokens is None else found
        echo = Echo(
            [await _text(engine, each) for each in texts], is_alone=body.max_tokens == 0
        )
    scopes: Sequence[StopScope] = ()
    if params.stop:
        scopes = completion_scopes(engine, request.app[PARSERS], found, params)
    identity = admission.response_identity("cmpl-")
    batch = await admission.batch(
        identity,
        found,
        params,
        may_be_shorter=body.max_tokens is None,
        stop_scopes=scopes,
    )
    answer = CompletionAnswer(identity, body, engine, echo, settings)
    field = PARAM
    if params.structured_outputs is not None:
        field = asking_field(body) or PARAM
    try:
        return await deliver(request, batch, answer, grammar_field=field)
    except RequestError as error:
        if error.param == PARAM:
            error.param = field
        raise


def _prompt_logprobs(body: CompletionRequest) -> int | None:
    """Returns the number that the engine has to return if the prompt is echoed."""
    counts = (body.prompt_logprobs, body.logprobs)
    return max((each for each in counts if each is not None), default=None)


async def _tokenized(
    engine: ServingEngine,
    body: CompletionRequest,
    found: Sequence[Prompt],
    client: Client,
    *,
    most_tokens: int | None,
) -> Sequence[Prompt]:
    """Returns the tokens of the prompts, as many of the last ones as are kept."""
    has_special = body.add_special_tokens is not False
    tokens = [
        await engine.texts.encode(
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


async def _text(engine: ServingEngine, prompt: Prompt) -> str:
    if isinstance(prompt, str):
        return prompt
    check_tokens("prompt", prompt, engine.facts.model.vocab_size)
    return await engine.texts.decode(prompt)
