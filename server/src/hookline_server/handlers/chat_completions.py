"""`/v1/chat/completions`."""

from collections.abc import Mapping

from aiohttp import web

from hookline_server.answers.chat import ChatAnswer
from hookline_server.answers.silent_requests import completed
from hookline_server.context import SETTINGS
from hookline_server.handlers.admission import admit
from hookline_server.handlers.conversation import read_conversation
from hookline_server.handlers.delivery import deliver
from hookline_server.handlers.field_names import fields_named
from hookline_server.openapi.operation import (
    GENERATION_ERRORS,
    Operation,
    Tag,
    described,
)
from hookline_server.protocol.chat import ChatChunk, ChatCompletion, ChatRequest, check
from hookline_server.protocol.errors import ErrorBody
from hookline_server.protocol.generation import (
    check_kept_logprobs,
    check_sizes,
    sampling_params,
)
from hookline_server.protocol.reasoning_switches import with_switches
from hookline_server.protocol.structured_outputs import asking_field


@described(
    Operation(
        tag=Tag.GENERATION,
        body=ChatRequest,
        answer=ChatCompletion,
        events=(ChatChunk, ErrorBody),
        errors=GENERATION_ERRORS,
        generates=True,
    )
)
async def chat_completions(request: web.Request) -> web.StreamResponse:
    """Generates replies to a conversation."""
    admission = await admit(request, ChatRequest, check)
    settings = request.app[SETTINGS].responses
    engine = admission.engine
    body = with_switches(admission.body)
    if settings.return_tokens_as_token_ids or settings.enable_force_include_usage:
        body = completed(body, settings)
    check_sizes(body, engine.facts.model.vocab_size)
    params = sampling_params(
        body,
        engine.facts.model.sampling,
        max_tokens=body.output_tokens,
        logprobs=body.likeliest_tokens,
        prompt_logprobs=body.prompt_logprobs,
    )
    if not body.stream:
        check_kept_logprobs(params, engine.facts.model.max_model_len)
    prompt, params, reading = await read_conversation(request, body, params)
    identity = admission.response_identity("chatcmpl-")
    scopes = reading.stop_scopes(params)
    batch = await admission.batch(
        identity,
        [prompt],
        params,
        may_be_shorter=body.output_tokens is None,
        stop_scopes=scopes,
    )
    answer = ChatAnswer(identity, body, engine, reading, settings)
    field = asking_field(body) or reading.grammar_field
    with fields_named(_names(body, field)):
        return await deliver(request, batch, answer, grammar_field=field)


def _names(body: ChatRequest, grammar_field: str) -> Mapping[str, str]:
    """Returns this endpoint's names of the engine's parameters."""
    return {
        "prompt": "messages",
        "structured_outputs": grammar_field,
        "max_tokens": body.max_tokens_field,
    }
