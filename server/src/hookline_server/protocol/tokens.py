"""Messages of `/tokenize` and `/detokenize`."""

from typing import Annotated

import msgspec

from hookline.exceptions import RequestError
from hookline_server.protocol.message import ChatMessage
from hookline_server.protocol.parameter_types import ChatTemplate, NotNegative
from hookline_server.protocol.prompt_end import check_final_message
from hookline_server.protocol.schema_notes import bounds, held
from hookline_server.protocol.template_variables import REASONING_EFFORTS
from hookline_server.protocol.tools import ToolDefinition


class TokenizeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request to tokenize a prompt or the messages of a chat."""

    model: str | None = None
    prompt: str | None = None
    messages: list[ChatMessage] | None = None
    add_special_tokens: bool | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    chat_template: ChatTemplate | None = None
    tools: list[Annotated[object, held(ToolDefinition)]] | None = None
    chat_template_kwargs: dict[str, object] | None = None
    documents: list[object] | None = None
    reasoning_effort: Annotated[str, bounds(enum=REASONING_EFFORTS)] | None = None
    return_token_strs: bool | None = None


class TokenizeResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens, their number, and the context length."""

    count: int
    max_model_len: int
    tokens: list[int]
    token_strs: list[str] | None = None


class DetokenizeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request to detokenize tokens."""

    model: str | None = None
    tokens: list[NotNegative]


class DetokenizeResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The text, with special tokens."""

    prompt: str


def check_tokenize(request: TokenizeRequest) -> None:
    """Checks that a request has exactly one kind of input."""
    if (request.prompt is None) == (request.messages is None):
        raise RequestError(
            "specify either prompt or messages",
            param="prompt" if request.messages is None else "messages",
        )
    if request.messages is not None and not request.messages:
        raise RequestError("messages must not be empty", param="messages")
    if request.messages is not None:
        check_final_message(request, request.messages)


def check_tokens(field: str, tokens: list[int], vocab_size: int) -> None:
    """Checks that all token ids are in the vocabulary."""
    if not tokens or (min(tokens) >= 0 and max(tokens) < vocab_size):
        return
    wrong = next(token for token in tokens if not 0 <= token < vocab_size)
    position = tokens.index(wrong)
    raise RequestError(
        f"{field}[{position}] is {wrong}, which is not a token id of the model "
        f"(0 to {vocab_size - 1})",
        param=f"{field}[{position}]",
    )
