"""`/tokenize` and `/detokenize`."""

from aiohttp import web

from hookline_server.engine import ServingEngine
from hookline_server.handlers.common import check_model, json_response, ready_engine
from hookline_server.protocol.message import template_messages
from hookline_server.protocol.tokens import (
    DetokenizeRequest,
    DetokenizeResponse,
    TokenizeRequest,
    TokenizeResponse,
    check_tokenize,
    check_tokens,
)
from hookline_server.protocol.wire import decode
from hookline_server.request_body import read_body


async def tokenize(request: web.Request) -> web.Response:
    """Tokenizes a prompt or a conversation."""
    engine = ready_engine(request)
    asked = decode(await read_body(request), TokenizeRequest)
    check_model(engine, asked.model)
    check_tokenize(asked)
    tokens = await _tokens(engine, asked)
    texts = None
    if asked.return_token_strs:
        texts = [engine.token_text(token) for token in tokens]
    return json_response(
        TokenizeResponse(
            count=len(tokens),
            max_model_len=engine.facts.max_model_len,
            tokens=tokens,
            token_strs=texts,
        )
    )


async def detokenize(request: web.Request) -> web.Response:
    """Detokenizes tokens."""
    engine = ready_engine(request)
    asked = decode(await read_body(request), DetokenizeRequest)
    check_model(engine, asked.model)
    check_tokens("tokens", asked.tokens, engine.facts.vocab_size)
    return json_response(DetokenizeResponse(prompt=await engine.decode(asked.tokens)))


async def _tokens(engine: ServingEngine, asked: TokenizeRequest) -> list[int]:
    if asked.messages is not None:
        return await engine.render_chat(
            template_messages(asked.messages),
            add_generation_prompt=asked.add_generation_prompt is not False,
        )
    return await engine.encode(
        asked.prompt or "", add_special_tokens=asked.add_special_tokens is not False
    )
