"""`/tokenize` and `/detokenize`."""

from aiohttp import web

from hookline_server.context import SETTINGS
from hookline_server.engine import ServingEngine
from hookline_server.handlers.admission import named_adapter, ready_engine
from hookline_server.handlers.common import json_response
from hookline_server.handlers.conversation import template_defaults
from hookline_server.ignored import ignored_of
from hookline_server.openapi.operation import (
    GENERATION_ERRORS,
    Operation,
    Tag,
    described,
)
from hookline_server.protocol.message import template_messages
from hookline_server.protocol.prompt_end import adds_generation_prompt, check_template
from hookline_server.protocol.template_variables import template_variables
from hookline_server.protocol.tokens import (
    DetokenizeRequest,
    DetokenizeResponse,
    TokenizeRequest,
    TokenizeResponse,
    check_tokenize,
    check_tokens,
)
from hookline_server.protocol.tools import read_tools
from hookline_server.request_body import read_message
from hookline_server.request_identity import IDENTITY


@described(
    Operation(
        tag=Tag.MODELS,
        body=TokenizeRequest,
        answer=TokenizeResponse,
        errors=GENERATION_ERRORS,
    )
)
async def tokenize(request: web.Request) -> web.Response:
    """Tokenizes a prompt or a conversation."""
    engine = ready_engine(request)
    body = await read_message(request, TokenizeRequest)
    await named_adapter(request.app, body.model)
    check_tokenize(body)
    trusted = request.app[SETTINGS].replies.trust_request_chat_template
    check_template(body, is_trusted=trusted)
    tokens = await _tokens(request, engine, body)
    texts = None
    if body.return_token_strs:
        known = {token: engine.texts.token_text(token) for token in set(tokens)}
        texts = [known[token] for token in tokens]
    return json_response(
        TokenizeResponse(
            count=len(tokens),
            max_model_len=engine.facts.model.max_model_len,
            tokens=tokens,
            token_strs=texts,
        )
    )


@described(
    Operation(
        tag=Tag.MODELS,
        body=DetokenizeRequest,
        answer=DetokenizeResponse,
        errors=GENERATION_ERRORS,
    )
)
async def detokenize(request: web.Request) -> web.Response:
    """Detokenizes tokens."""
    engine = ready_engine(request)
    body = await read_message(request, DetokenizeRequest)
    await named_adapter(request.app, body.model)
    check_tokens("tokens", body.tokens, engine.facts.model.vocab_size)
    return json_response(
        DetokenizeResponse(prompt=await engine.texts.decode(body.tokens))
    )


async def _tokens(
    request: web.Request, engine: ServingEngine, body: TokenizeRequest
) -> list[int]:
    client = request[IDENTITY].client
    if body.messages is not None:
        ignored = ignored_of(request)
        tools = read_tools(body.tools or (), ignored)
        defaults = template_defaults(request)
        return await engine.texts.render_chat(
            template_messages(body.messages, ignored),
            variables=template_variables(body, tools, defaults),
            add_generation_prompt=adds_generation_prompt(body),
            continue_final_message=bool(body.continue_final_message),
            chat_template=body.chat_template,
            client=client,
        )
    return await engine.texts.encode(
        body.prompt or "",
        add_special_tokens=body.add_special_tokens is not False,
        client=client,
    )
