"""`/v1/embeddings` and `/pooling`."""

from aiohttp import web

from hookline.exceptions import PromptTooLongError
from hookline.pooling import POOLING, Embedder, refuse_embedding
from hookline.request_limits import POOLED_VALUES
from hookline.sampling_params import NO_SAMPLING
from hookline_processes.fair_queue import Client
from hookline_server.answers.embedding import EmbeddingAnswer
from hookline_server.engine import ServingEngine
from hookline_server.handlers.admission import admit
from hookline_server.handlers.delivery import deliver_whole
from hookline_server.openapi.operation import (
    GENERATION_ERRORS,
    Operation,
    Tag,
    described,
)
from hookline_server.protocol.embedding import (
    EmbeddingRequest,
    EmbeddingResponse,
    Input,
    PoolingRequest,
    PoolingResponse,
    check,
    fitted,
    inputs,
    most_input_tokens,
    pooling_params,
)
from hookline_server.protocol.tokens import check_tokens
from hookline_server.request_identity import IDENTITY


@described(
    Operation(
        tag=Tag.GENERATION,
        body=EmbeddingRequest,
        answer=EmbeddingResponse,
        errors=GENERATION_ERRORS,
        generates=True,
    )
)
async def embeddings(request: web.Request) -> web.Response:
    """Embeds texts or token ids: one vector each."""
    return await _answer(request, EmbeddingRequest, "embd-")


@described(
    Operation(
        tag=Tag.GENERATION,
        body=PoolingRequest,
        answer=PoolingResponse,
        errors=GENERATION_ERRORS,
        generates=True,
    )
)
async def pooling(request: web.Request) -> web.Response:
    """Embeds texts or token ids: one vector each, or one per token."""
    return await _answer(request, PoolingRequest, "pool-")


async def _answer(
    request: web.Request, kind: type[EmbeddingRequest], prefix: str
) -> web.Response:
    admission = await admit(request, kind, check)
    engine, body = admission.engine, admission.body
    asked = pooling_params(body)
    embedder = engine.facts.sections.get(POOLING)
    if not isinstance(embedder, Embedder):
        raise refuse_embedding()
    embedder.prepared(asked)
    given = inputs(body)
    found = [
        await _tokens(engine, body, each, request[IDENTITY].client) for each in given
    ]
    POOLED_VALUES.check(embedder.num_values(asked, [*map(len, found)]))
    identity = admission.response_identity(prefix)
    batch = await admission.batch(identity, found, NO_SAMPLING, pooling=asked)
    answer = EmbeddingAnswer(identity, body)
    return await deliver_whole(request, batch, answer.whole)


async def _tokens(
    engine: ServingEngine, body: EmbeddingRequest, given: Input, client: Client
) -> list[int]:
    longest = engine.facts.model.max_model_len
    most = most_input_tokens(body, longest)
    if isinstance(given, str):
        try:
            given = await engine.texts.encode(
                given,
                add_special_tokens=body.add_special_tokens is not False,
                is_prompt=most is None,
                client=client,
            )
        except PromptTooLongError as error:
            # An input that is embedded needs no room for output.
            raise PromptTooLongError(
                error.prompt_tokens, longest, is_minimum=True, is_embedded=True
            ) from error
        return fitted(given, most, longest)
    kept = fitted(given, most, longest)
    check_tokens("input", kept, engine.facts.model.vocab_size)
    return kept
