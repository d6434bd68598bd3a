"""`/v1/messages` and `/v1/messages/count_tokens` of Anthropic's API."""

from aiohttp import web

from hookline.exceptions import RequestError
from hookline_server.answers.anthropic_message import AnthropicAnswer
from hookline_server.context import ENGINE, PARSERS
from hookline_server.engine import ServingEngine
from hookline_server.handlers.admission import admit, check_model, ready_engine
from hookline_server.handlers.common import json_response
from hookline_server.handlers.conversation import (
    Conversation,
    count_conversation,
    read_prompt,
    template_defaults,
)
from hookline_server.handlers.delivery import deliver
from hookline_server.handlers.field_names import format_named
from hookline_server.openapi.operation import (
    GENERATION_ERRORS,
    Operation,
    Tag,
    described,
)
from hookline_server.protocol.anthropic_conversation import (
    begins_reply,
    conversation_messages,
)
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
from hookline_server.replies.parsers import ChosenParsers
from hookline_server.replies.reading import (
    ReplyReading,
    can_reason_first,
    check_use,
)
from hookline_server.request_body import read_message


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
    body = admission.body
    with format_named(body.format_field):
        params = sampling_params(generation_request(body), max_tokens=body.max_tokens)
    prompt, reading = await _read(request, body)
    params = reading.adapted(params)
    identity = admission.response_identity("msg_")
    scopes = reading.stop_scopes(params)
    batch = await admission.batch(identity, [prompt], params, stop_scopes=scopes)
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
    engine = ready_engine(request)
    body = await read_message(request, CountTokensRequest)
    check_model(engine, body.model)
    check_prompt(body)
    conversation = _conversation(request, body)
    return json_response(TokenCount(await count_conversation(request, conversation)))


async def _read(
    request: web.Request, body: MessagesRequest
) -> tuple[list[int], ReplyReading]:
    conversation = _conversation(request, body)
    parsers = request.app[PARSERS]
    check_use(conversation.use, parsers, request.app[ENGINE])
    if body.thinking is not None and body.thinking.type == "enabled":
        _check_reasoning(conversation, parsers, request.app[ENGINE])
    return await read_prompt(request, conversation)


def _check_reasoning(
    conversation: Conversation, parsers: ChosenParsers, engine: ServingEngine
) -> None:
    """Raises `RequestError` if a reply cannot have the reasoning that is asked for."""
    if parsers.reasoning is None:
        raise RequestError(
            "thinking: reasoning is found only by a server that was started with "
            "--reasoning-parser",
            param="thinking",
        )
    if conversation.continue_final_message:
        raise RequestError(
            "thinking: a reply that the request begins has no reasoning; disable it",
            param="thinking",
        )
    is_forced = conversation.use.choice in (Choice.REQUIRED, Choice.NAMED)
    if is_forced and not can_reason_first(parsers, engine):
        raise RequestError(
            "thinking: forced calls leave no room for reasoning on this server; "
            "disable it, or use the tool_choice 'auto'",
            param="thinking",
        )


def _conversation(request: web.Request, body: CountTokensRequest) -> Conversation:
    use = anthropic_tool_use(body)
    messages = conversation_messages(body.system, body.messages)
    is_begun = begins_reply(body.messages)
    return Conversation(
        messages=messages,
        use=use,
        add_generation_prompt=not is_begun,
        continue_final_message=is_begun,
        variables=template_variables(body, use.tools, template_defaults(request)),
    )
