"""`/invocations`, the only path that SageMaker knows: any generation or embedding."""

from collections.abc import Awaitable, Callable, Mapping

import msgspec
from aiohttp import web
from msgspec import UNSET, Raw, UnsetType

from hookline.exceptions import RequestError
from hookline_server.handlers.chat_completions import chat_completions
from hookline_server.handlers.completions import completions
from hookline_server.handlers.embeddings import embeddings, pooling
from hookline_server.openapi.operation import (
    GENERATION_ERRORS,
    Operation,
    Tag,
    described,
)
from hookline_server.protocol.chat import ChatChunk, ChatCompletion, ChatRequest
from hookline_server.protocol.completion import Completion, CompletionRequest
from hookline_server.protocol.embedding import (
    EmbeddingRequest,
    EmbeddingResponse,
    PoolingRequest,
    PoolingResponse,
)
from hookline_server.protocol.errors import ErrorBody
from hookline_server.request_body import peek_message

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

HANDLERS: Mapping[str, Handler] = {
    "messages": chat_completions,
    "prompt": completions,
    "task": pooling,
    "input": embeddings,
}
"""The handler of a body, by the first of these fields that it has."""


class _KnownFields(msgspec.Struct, frozen=True):
    """The fields that determine the handler of a body."""

    messages: Raw | UnsetType = UNSET
    prompt: Raw | UnsetType = UNSET
    task: Raw | UnsetType = UNSET
    input: Raw | UnsetType = UNSET


@described(
    Operation(
        tag=Tag.GENERATION,
        body=(ChatRequest, CompletionRequest, PoolingRequest, EmbeddingRequest),
        answer=(ChatCompletion, Completion, PoolingResponse, EmbeddingResponse),
        events=(ChatChunk, Completion, ErrorBody),
        errors=GENERATION_ERRORS,
        generates=True,
    )
)
async def invocations(request: web.Request) -> web.StreamResponse:
    """Handles a body like the endpoint whose fields it has.

    With `messages` it is a chat, with `prompt` completions, with `task` a request to
    `/pooling`, otherwise with `input` one for embeddings.
    """
    handler = await _handler(request)
    return await handler(request)


async def _handler(request: web.Request) -> Handler:
    fields = await peek_message(request, _KnownFields)
    for name, handler in HANDLERS.items():
        if getattr(fields, name) is not UNSET:
            return handler
    names = ", ".join(HANDLERS)
    raise RequestError(
        f"the body has none of the fields {names}, of which it needs one"
    )
