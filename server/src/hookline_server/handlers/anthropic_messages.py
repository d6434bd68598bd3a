"""`/v1/messages` and `/v1/messages/count_tokens` of Anthropic's API."""

from typing import TypeVar

import msgspec
from aiohttp import web

from hookline_server.answers.anthropic_message import AnthropicAnswer
from hookline_server.context import ENGINE, PARSERS
from hookline_server.handlers.admission import admit, named_adapter, ready_engine
from hookline_server.handlers.common import json_response
from hookline_server.handlers.conversation import (
    Conversation,
    count_conversation,
    read_prompt,
    template_defaults,
)
from hookline_server.handlers.delivery import deliver
from hookline_server.handlers.field_names import format_named
from hookline_server.ignored import ignored_of
from hookline_server.openapi.operation import (
    GENERATION_ERRORS,
    Operation,
    Tag,
    described,
)
from hookline_server.protocol.anthropic_conversation import read_conversation
from hookline_server.protocol.anthropic_request import (
    CountTokensRequest,
    MessagesRequest,
    check,
    check_prompt,
    generation_request,
)
from hookline_server.protocol.anthropic_response import (
    MESSAGE_EVENTS,
    AnthropicMessage,
    TokenCount,
)
from hookline_server.protocol.anthropic_tools import anthropic_tool_use
from hookline_server.protocol.generation import sampling_params
from hookline_server.protocol.template_variables import template_variables
from hookline_server.protocol.tool_use import Choice
from hookline_server.replies.reading import can_reason_first, check_use
from hookline_server.request_body import read_message
from hookline_server.settings import MaxTokensPolicy

Asked = TypeVar("Asked", bound=CountTokensRequest)


@described(
    Operation(
        tag=Tag.GENERATION,
        body=MessagesRequest,
        answer=AnthropicMessage,
        events=MESSAGE_EVENTS,
        ends_with_done=False,
        errors=GENERATION_ERRORS,
        generates=True,
    )
)
async def create_message(request: web.Request) -> web.StreamResponse:
    """Generates the next message of a conversation."""
    admission = await admit(request, MessagesRequest, check)
    body, conversation = _conversation(request, admission.body)
    check_use(conversation.use, request.app[PARSERS], admission.engine)
    with format_named(body.format_field):
        params = sampling_params(
            generation_request(body),
            admission.engine.facts.model.sampling,
            max_tokens=body.max_tokens,
        )
    prompt, reading = await read_prompt(request, conversation)
    params, reading = reading.adapted(params)
    identity = admission.response_identity("msg_")
    scopes = reading.stop_scopes(params)
    # Agents ask for as much as the provider's own models can write.
    batch = await admission.batch(
        identity,
        [prompt],
        params,
        policy=MaxTokensPolicy.CLAMP,
        stop_scopes=scopes,
    )
    answer = AnthropicAnswer(identity, admission.engine, reading)
    field = body.format_field if body.format else "tools"
    with format_named(field):
        return await deliver(request, batch, answer, grammar_field=field)


@described(
    Operation(
        tag=Tag.GENERATION,
        body=CountTokensRequest,
        answer=TokenCount,
        errors=GENERATION_ERRORS,
    )
)
async def count_tokens(request: web.Request) -> web.Response:
    """Counts the tokens of the prompt that a conversation becomes."""
    ready_engine(request)
    body = await read_message(request, CountTokensRequest)
    await named_adapter(request.app, body.model)
    check_prompt(body)
    _, conversation = _conversation(request, body)
    return json_response(TokenCount(await count_conversation(request, conversation)))


def _conversation(request: web.Request, given: Asked) -> tuple[Asked, Conversation]:
    """Returns a request without reasoning that no reply can have, and its prompt."""
    ignored, parsers = ignored_of(request), request.app[PARSERS]
    use = anthropic_tool_use(given, ignored)
    read = read_conversation(given.system, given.messages, ignored)
    body = given
    if body.thinking is not None and body.thinking.type == "enabled":
        is_forced = use.choice in (Choice.REQUIRED, Choice.NAMED)
        has_room = not is_forced or can_reason_first(parsers, request.app[ENGINE])
        if parsers.reasoning is None or read.begins_reply or not has_room:
            ignored.add("field", "thinking")
            body = msgspec.structs.replace(body, thinking=None)
    return body, Conversation(
        messages=read.messages,
        use=use,
        add_generation_prompt=not read.begins_reply,
        continue_final_message=read.begins_reply,
        variables=template_variables(body, use.tools, template_defaults(request)),
    )
