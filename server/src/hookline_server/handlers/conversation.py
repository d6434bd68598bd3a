"""Turns a conversation into a prompt, and settles how the replies to it are read."""

from collections.abc import Mapping

from aiohttp import web

from hookline.frozen import EMPTY
from hookline.sampling_params import SamplingParams
from hookline_server.context import ENGINE, PARSERS, SETTINGS
from hookline_server.protocol.chat import ChatRequest
from hookline_server.protocol.message import template_messages
from hookline_server.protocol.prompt_options import (
    check_prompt_tokens,
    most_prompt_tokens,
)
from hookline_server.protocol.template_variables import template_variables
from hookline_server.protocol.tool_use import tool_use
from hookline_server.replies.reading import ReplyReading, check_use, reply_reading
from hookline_server.tenants import client_of


def template_defaults(request: web.Request) -> Mapping[str, object]:
    """Returns the arguments of the chat template that the server was started with."""
    return request.app[SETTINGS].replies.default_chat_template_kwargs or EMPTY


async def read_conversation(
    request: web.Request, body: ChatRequest, params: SamplingParams
) -> tuple[list[int], SamplingParams, ReplyReading]:
    """Returns the prompt's tokens, adapted parameters, and how replies are read.

    Raises:
        OverloadedError: Too much text is waiting.
        RequestError: Messages, tools or arguments are wrong, or the template refuses
            them.
    """
    engine, parsers = request.app[ENGINE], request.app[PARSERS]
    use = tool_use(body)
    check_use(use, parsers, engine)
    max_model_len = engine.facts.max_model_len
    most_tokens = most_prompt_tokens(body, max_model_len, body.output_tokens)
    prompt = await engine.render_chat(
        template_messages(body.messages),
        variables=template_variables(body, use.tools, template_defaults(request)),
        add_generation_prompt=body.add_generation_prompt is not False,
        is_prompt=most_tokens is None,
        client=client_of(request),
    )
    if most_tokens is not None:
        prompt = prompt[-most_tokens:]
    check_prompt_tokens(body, params, len(prompt))
    shows_reasoning = body.include_reasoning is not False
    reading = reply_reading(
        engine, parsers, use, prompt, shows_reasoning=shows_reasoning
    )
    return prompt, reading.adapted(params), reading
