"""Turns a conversation into a prompt, and determines how its replies are read."""

from collections.abc import Mapping
from dataclasses import dataclass

from aiohttp import web

from hookline.frozen import EMPTY
from hookline.sampling_params import SamplingParams
from hookline_server.context import ENGINE, PARSERS, SETTINGS
from hookline_server.ignored import ignored_of
from hookline_server.protocol.chat import ChatRequest
from hookline_server.protocol.message import template_messages
from hookline_server.protocol.prompt_end import adds_generation_prompt, check_template
from hookline_server.protocol.prompt_options import (
    check_prompt_tokens,
    most_prompt_tokens,
)
from hookline_server.protocol.template_variables import template_variables
from hookline_server.protocol.tool_use import ToolUse, tool_use
from hookline_server.replies.reading import ReplyReading, check_use, reply_reading
from hookline_server.request_identity import IDENTITY


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """Everything that makes up a prompt.

    Attributes:
        messages: The messages, as the chat template gets them.
        use: The tools.
        variables: Further variables of the template, `tools` included.
        add_generation_prompt: Whether the prompt ends with the beginning of a reply.
        continue_final_message: Whether it ends with the text of the last message.
        chat_template: Template that replaces the model's; None keeps the model's.
        most_tokens: Number of the prompt's last tokens that are kept; None keeps all.
        shows_reasoning: Whether the client gets the reasoning.
    """

    messages: list[dict[str, object]]
    use: ToolUse
    variables: dict[str, object]
    add_generation_prompt: bool = True
    continue_final_message: bool = False
    chat_template: str | None = None
    most_tokens: int | None = None
    shows_reasoning: bool = True

    @property
    def past_calls(self) -> int:
        """Number of calls in the messages."""
        calls = (each.get("tool_calls") for each in self.messages)
        return sum(len(each) for each in calls if isinstance(each, list))


def template_defaults(request: web.Request) -> Mapping[str, object]:
    """Returns the arguments of the chat template that the server was started with."""
    return request.app[SETTINGS].replies.default_chat_template_kwargs or EMPTY


async def read_conversation(
    request: web.Request, body: ChatRequest, params: SamplingParams
) -> tuple[list[int], SamplingParams, ReplyReading]:
    """Returns the prompt's tokens, adapted parameters, and how replies are read.

    Raises:
        OverloadedError: Too much text is waiting.
        RequestError: Messages, tools or arguments are invalid, or the template refuses
            them.
    """
    engine, settings = request.app[ENGINE], request.app[SETTINGS].replies
    check_template(body, is_trusted=settings.trust_request_chat_template)
    ignored = ignored_of(request)
    use = tool_use(body, ignored)
    check_use(use, request.app[PARSERS], engine)
    conversation = Conversation(
        messages=template_messages(body.messages, ignored),
        use=use,
        variables=template_variables(body, use.tools, template_defaults(request)),
        add_generation_prompt=adds_generation_prompt(body),
        continue_final_message=bool(body.continue_final_message),
        chat_template=body.chat_template,
        most_tokens=most_prompt_tokens(
            body, engine.facts.model.max_model_len, body.output_tokens
        ),
        shows_reasoning=body.include_reasoning is not False,
    )
    prompt, reading = await read_prompt(request, conversation)
    check_prompt_tokens(body, params, len(prompt))
    return prompt, *reading.adapted(params)


async def read_prompt(
    request: web.Request, conversation: Conversation
) -> tuple[list[int], ReplyReading]:
    """Returns the tokens of the prompt, and how replies are read.

    Raises:
        OverloadedError: Too much text is waiting.
        RequestError: The template refuses the conversation.
    """
    is_whole = conversation.most_tokens is None
    prompt = await _rendered(request, conversation, must_fit=is_whole)
    return prompt, reply_reading(
        request.app[ENGINE],
        request.app[PARSERS],
        conversation.use,
        prompt,
        shows_reasoning=conversation.shows_reasoning,
        continues=conversation.continue_final_message,
        past_calls=conversation.past_calls,
    )


async def count_conversation(request: web.Request, conversation: Conversation) -> int:
    """Returns the length of a prompt, which may exceed the context.

    Raises:
        OverloadedError: Too much text is waiting.
        RequestError: The template refuses the conversation.
    """
    return len(await _rendered(request, conversation, must_fit=False))


async def _rendered(
    request: web.Request, conversation: Conversation, *, must_fit: bool
) -> list[int]:
    prompt = await request.app[ENGINE].texts.render_chat(
        conversation.messages,
        variables=conversation.variables,
        add_generation_prompt=conversation.add_generation_prompt,
        continue_final_message=conversation.continue_final_message,
        chat_template=conversation.chat_template,
        is_prompt=must_fit,
        client=request[IDENTITY].client,
    )
    most_tokens = conversation.most_tokens
    return prompt if most_tokens is None else prompt[-most_tokens:]
