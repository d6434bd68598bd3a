"""How the prompt of a conversation ends, and which template renders it."""

from collections.abc import Sequence
from typing import Protocol

from hookline.exceptions import RequestError
from hookline.request_limits import CHAT_TEMPLATE
from hookline_server.protocol.message import ChatMessage


class PromptFields(Protocol):
    """The fields of a request that say how its messages become a prompt."""

    @property
    def add_generation_prompt(self) -> bool | None: ...
    @property
    def continue_final_message(self) -> bool | None: ...
    @property
    def chat_template(self) -> str | None: ...


def adds_generation_prompt(request: PromptFields) -> bool:
    """Returns whether the prompt ends with the start of a reply."""
    return (
        request.add_generation_prompt is not False
        and not request.continue_final_message
    )


def check_final_message(request: PromptFields, messages: Sequence[ChatMessage]) -> None:
    """Checks that the final message can be continued, if the request asks for that.

    Raises:
        RequestError: The request also asks for a new reply, or the message does not end
            with text.
    """
    if not request.continue_final_message:
        return
    if request.add_generation_prompt:
        raise RequestError(
            "continue_final_message and add_generation_prompt cannot both be true",
            param="continue_final_message",
        )
    place, last = f"messages[{len(messages) - 1}]", messages[-1]
    if last.content is None or last.tool_calls or last.function_call:
        raise RequestError(
            f"continue_final_message: {place} must be text to continue, and have no "
            "calls",
            param=f"{place}.content",
        )


def check_template(request: PromptFields, *, is_trusted: bool) -> None:
    """Checks a request's own chat template.

    Args:
        request: The request.
        is_trusted: Whether this server accepts templates from requests.

    Raises:
        LimitError: It is too long.
        RequestError: This server accepts none.
    """
    if request.chat_template is None:
        return
    if not is_trusted:
        raise RequestError(
            "chat_template: templates of requests are used only by a server that was "
            "started with --trust-request-chat-template",
            param="chat_template",
        )
    CHAT_TEMPLATE.check(len(request.chat_template))
