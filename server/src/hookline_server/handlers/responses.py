"""`/v1/responses` and `/v1/responses/input_tokens` of OpenAI's API."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace

from aiohttp import web

from hookline.sampling_params import SamplingParams
from hookline.structured_outputs import PARAM
from hookline_server.answers.answer import Identity
from hookline_server.answers.responses import ResponsesAnswer
from hookline_server.context import ENGINE, PARSERS, RESPONSE_STORE
from hookline_server.handlers.admission import admit
from hookline_server.handlers.common import json_response
from hookline_server.handlers.conversation import (
    Conversation,
    count_conversation,
    read_prompt,
    template_defaults,
)
from hookline_server.handlers.delivery import deliver
from hookline_server.handlers.field_names import fields_named, format_named
from hookline_server.handlers.response_history import (
    owner_of,
    read_history,
    read_input,
    stored_response,
)
from hookline_server.ignored import ignored_of
from hookline_server.openapi.operation import (
    GENERATION_ERRORS,
    Operation,
    Tag,
    described,
)
from hookline_server.protocol.generation import (
    GenerationRequest,
    check_kept_logprobs,
    check_sizes,
    sampling_params,
)
from hookline_server.protocol.prompt_options import most_prompt_tokens
from hookline_server.protocol.responses_checks import check
from hookline_server.protocol.responses_choice import responses_tool_use
from hookline_server.protocol.responses_conversation import conversation_messages
from hookline_server.protocol.responses_echo import begun_response
from hookline_server.protocol.responses_events import RESPONSE_EVENTS
from hookline_server.protocol.responses_items import InputItem
from hookline_server.protocol.responses_object import InputTokens, ResponseObject
from hookline_server.protocol.responses_request import (
    CHAT_NAMES,
    INCLUDABLE,
    SEALED_INCLUDED,
    ResponsesRequest,
    generation_request,
)
from hookline_server.protocol.responses_tools import RequestTools, read_tools
from hookline_server.protocol.structured_outputs import asking_field
from hookline_server.protocol.template_variables import template_variables
from hookline_server.replies.reading import ReplyReading, check_use
from hookline_server.request_identity import IDENTITY

_FORMAT = "text.format"
"""OpenAI's field for the format of the text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """A request that has been read and checked.

    Attributes:
        prompt: The prompt's tokens.
        params: The sampling parameters.
        reading: How the reply is read.
        tools: The tools, and how the client knows them.
        items: The items of the request itself.
    """

    prompt: list[int]
    params: SamplingParams
    reading: ReplyReading
    tools: RequestTools
    items: Sequence[InputItem]


@described(
    Operation(
        tag=Tag.GENERATION,
        body=ResponsesRequest,
        answer=ResponseObject,
        events=RESPONSE_EVENTS,
        ends_with_done=False,
        errors=GENERATION_ERRORS,
        generates=True,
    )
)
async def create_response(request: web.Request) -> web.StreamResponse:
    """Generates a response to items, which may continue an earlier response."""
    admission = await admit(request, ResponsesRequest, check)
    body = admission.body
    generation = generation_request(body)
    field = PARAM if body.format is None else _FORMAT
    with fields_named(CHAT_NAMES), format_named(field):
        read = await _read(request, body, generation)
    # Unique, because the response may be stored under its id.
    identity = replace(admission.response_identity(""), id=f"resp_{uuid.uuid4().hex}")
    scopes = read.reading.stop_scopes(read.params)
    batch = await admission.batch(
        identity,
        [read.prompt],
        read.params,
        may_be_shorter=body.max_output_tokens is None,
        stop_scopes=scopes,
    )
    answer = _answer(request, body, identity, read)
    field = asking_field(generation) or read.reading.grammar_field
    field = _FORMAT if field == "response_format" else field
    with fields_named(CHAT_NAMES), format_named(field):
        return await deliver(
            request, batch, answer, grammar_field=field, failure=answer.failed
        )


@described(
    Operation(
        tag=Tag.GENERATION,
        body=ResponsesRequest,
        answer=InputTokens,
        errors=GENERATION_ERRORS,
    )
)
async def count_input_tokens(request: web.Request) -> web.Response:
    """Counts the tokens of the prompt that a request for a response becomes."""
    body = (await admit(request, ResponsesRequest, check)).body
    with fields_named(CHAT_NAMES):
        conversation, *_ = await _conversation(request, body, generation_request(body))
        count = await count_conversation(request, conversation)
    return json_response(InputTokens(input_tokens=count))


async def _read(
    request: web.Request, body: ResponsesRequest, generation: GenerationRequest
) -> _Read:
    engine = request.app[ENGINE]
    max_model_len = engine.facts.model.max_model_len
    check_sizes(generation, engine.facts.model.vocab_size)
    params = sampling_params(
        generation,
        engine.facts.model.sampling,
        max_tokens=body.max_output_tokens,
        logprobs=body.likeliest_tokens,
    )
    # Also of a stream, whose last event repeats them.
    check_kept_logprobs(params, max_model_len)
    conversation, tools, items = await _conversation(request, body, generation)
    check_use(conversation.use, request.app[PARSERS], engine)
    prompt, reading = await read_prompt(request, conversation)
    params, reading = reading.adapted(params)
    return _Read(
        prompt=prompt, params=params, reading=reading, tools=tools, items=items
    )


async def _conversation(
    request: web.Request, body: ResponsesRequest, generation: GenerationRequest
) -> tuple[Conversation, RequestTools, list[InputItem]]:
    """Returns the conversation, its tools, and the request's own items in it."""
    ignored = ignored_of(request)
    history = await read_history(request, body)
    placed = await read_input(request, body)
    items = [*history, *placed]
    tools = read_tools(body.tools or (), items, ignored)
    use = responses_tool_use(
        body.tool_choice,
        tools,
        ignored,
        parallel_tool_calls=body.parallel_tool_calls,
    )
    conversation = Conversation(
        messages=conversation_messages(body.instructions, items, ignored),
        use=use,
        variables=template_variables(body, use.tools, template_defaults(request)),
        most_tokens=most_prompt_tokens(
            generation,
            request.app[ENGINE].facts.model.max_model_len,
            body.max_output_tokens,
        ),
    )
    for value in body.include or ():
        if value not in INCLUDABLE:
            ignored.add("field", "include")
    return conversation, tools, [item for _, item in placed]


def _answer(
    request: web.Request, body: ResponsesRequest, identity: Identity, read: _Read
) -> ResponsesAnswer:
    store = request.app[RESPONSE_STORE]
    is_kept = body.store is not False and store.is_enabled
    begun = begun_response(
        body,
        read.params,
        tools=read.tools.echoed,
        response_id=identity.id,
        created_at=identity.created,
        model=identity.model,
        is_kept=is_kept,
    )
    owner, payer = owner_of(request), request[IDENTITY].payer

    def keep(response: ResponseObject) -> None:
        store.keep(stored_response(owner, payer, response, read.items))

    return ResponsesAnswer(
        begun,
        request.app[ENGINE],
        read.reading,
        forms=read.tools.forms,
        seals=SEALED_INCLUDED in (body.include or ()),
        keep=keep if is_kept else None,
    )
