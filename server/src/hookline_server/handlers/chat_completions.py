"""`/v1/chat/completions`."""

from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web

from hookline.exceptions import RequestError
from hookline_server.answers.chat import ChatAnswer
from hookline_server.engine import ServingEngine
from hookline_server.handlers.common import (
    check_model,
    make_identity,
    ready_engine,
    rejections_counted,
)
from hookline_server.handlers.delivery import deliver
from hookline_server.protocol.chat import ChatRequest, check
from hookline_server.protocol.generation import sampling_params
from hookline_server.protocol.message import template_messages
from hookline_server.protocol.wire import decode
from hookline_server.request_body import read_body
from hookline_server.request_identity import request_facts, requested_slo
from hookline_server.streams import Submission


async def chat_completions(request: web.Request) -> web.StreamResponse:
    """Generates replies to a conversation."""
    engine = ready_engine(request)
    with rejections_counted(request):
        slo = requested_slo(request)
        asked = decode(await read_body(request), ChatRequest)
        check_model(engine, asked.model)
        check(asked)
        params = sampling_params(
            asked, max_tokens=asked.output_tokens, logprobs=asked.likeliest_tokens
        )
        prompt = await _prompt(engine, asked)
    submission = Submission(
        prompts=[prompt],
        params=params,
        facts=request_facts(request, priority=asked.priority or 0, slo=slo),
        cache_salt=asked.cache_salt,
        is_streamed=asked.is_streamed,
        kv_transfer_params=asked.kv_transfer_params,
    )
    answer = ChatAnswer(make_identity(request, "chatcmpl"), asked, engine)
    with _fields_named(asked):
        return await deliver(request, submission, answer)


async def _prompt(engine: ServingEngine, asked: ChatRequest) -> list[int]:
    return await engine.render_chat(
        template_messages(asked.messages),
        add_generation_prompt=asked.add_generation_prompt is not False,
    )


@contextmanager
def _fields_named(asked: ChatRequest) -> Iterator[None]:
    """Replaces the engine's parameter names in an error by this endpoint's."""
    names = {"prompt": "messages", "max_tokens": asked.max_tokens_field}
    try:
        yield
    except RequestError as error:
        error.param = names.get(error.param or "", error.param)
        raise
