"""Responses of `/v1/embeddings` and `/pooling`."""

import base64
import sys
from array import array
from collections.abc import Sequence

import msgspec
from msgspec import Raw

from hookline.outputs import RequestOutput
from hookline.pooling import PooledVectors
from hookline_server.answers.answer import Identity, finish_word
from hookline_server.answers.slices import SLICE_TOKENS, Turns
from hookline_server.api_error import ApiError
from hookline_server.protocol.embedding import (
    EmbeddingData,
    EmbeddingRequest,
    EmbeddingResponse,
    EmbeddingUsage,
    PoolingData,
    PoolingRequest,
    PoolingResponse,
)

_NUMBERS_PER_TOKEN = 256
"""How many numbers take about as long to convert as one token elsewhere."""
_SLICE_NUMBERS = _NUMBERS_PER_TOKEN * SLICE_TOKENS


class EmbeddingAnswer:
    """Creates the response of one request."""

    def __init__(self, identity: Identity, request: EmbeddingRequest) -> None:
        self._identity = identity
        self._request = request
        self._turns = Turns()

    async def whole(
        self, outputs: Sequence[RequestOutput]
    ) -> EmbeddingResponse | PoolingResponse:
        """Returns the response; others get their turns between its slices."""
        raws = [await self._raw(_vectors(output)) for output in outputs]
        tokens = sum(len(each.prompt_token_ids) for each in outputs)
        identity, usage = self._identity, EmbeddingUsage(tokens, tokens)
        if isinstance(self._request, PoolingRequest):
            return PoolingResponse(
                id=identity.id,
                created=identity.created,
                model=identity.model,
                data=[PoolingData(index=n, data=raw) for n, raw in enumerate(raws)],
                usage=usage,
            )
        return EmbeddingResponse(
            id=identity.id,
            created=identity.created,
            model=identity.model,
            data=[EmbeddingData(index=n, embedding=raw) for n, raw in enumerate(raws)],
            usage=usage,
        )

    async def _raw(self, vectors: PooledVectors) -> Raw:
        """Returns vectors as JSON, converted slice by slice."""
        if self._request.is_base64:
            await self._turns.took(1)
            return Raw(b'"' + base64.b64encode(vectors.values) + b'"')
        values, pieces = _floats(vectors.values), []
        size = len(values) // vectors.count
        rows = max(1, _SLICE_NUMBERS // size)
        for first in range(0, vectors.count, rows):
            part = values[first * size : (first + rows) * size].tolist()
            lists = [part[at : at + size] for at in range(0, len(part), size)]
            pieces.append(msgspec.json.encode(lists)[1:-1])
            await self._turns.took(1 + len(part) // _NUMBERS_PER_TOKEN)
        joined = b",".join(pieces)
        return Raw(joined if self._is_single else b"[" + joined + b"]")

    @property
    def _is_single(self) -> bool:
        """Whether each input has one vector."""
        return self._request.pooling_task == "embed"


def _floats(data: bytes) -> "array[float]":
    """Returns little-endian float32 as numbers, without the import of numpy."""
    values = array("f", data)
    if sys.byteorder == "big":
        values.byteswap()
    return values


def _vectors(output: RequestOutput) -> PooledVectors:
    """Returns an output's vectors; raises `ApiError` if it ended without them."""
    if output.vectors is None:
        finish_word(output.outputs[0])
        raise ApiError(500, "the engine returned no vectors", code="engine_error")
    return output.vectors
