"""Embeddings: what clients ask for and what they get.

The rest is an extension of the engine, `pooling`, which need not be installed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import msgspec

from hookline.exceptions import RequestError
from hookline.request_part import PreparingFacts
from hookline.sections import Section

POOLING = "pooling"
"""Name of the extension."""

TASKS = ("embed", "token_embed")
"""One vector per prompt, and one per token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolingParams:
    """What a client can ask of an embedding, with the names of vLLM.

    Attributes:
        task: `embed` for one vector per prompt, `token_embed` for one per token.
        dimensions: Number of components, for models that were trained to be cut
            (Matryoshka representations); None means the server's.
        normalize: Whether vectors have length 1; None means the server's.
    """

    task: str = "embed"
    dimensions: int | None = None
    normalize: bool | None = None


class PooledVectors(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The result of a pooling.

    Attributes:
        count: Number of vectors: 1, or one per prompt token.
        values: Their components one after the other, float32, little-endian.
    """

    count: int
    values: bytes


VECTORS = Section(POOLING, PooledVectors)
"""What a request that was embedded ends with."""


@runtime_checkable
class Embedder(PreparingFacts, Protocol):
    """The extension's section of the facts of an engine that embeds."""

    def num_values(self, asked: PoolingParams, prompts: Sequence[int]) -> int:
        """Returns how many numbers the vectors of prompts of these lengths have."""


def refuse_embedding() -> RequestError:
    """Returns the error of a request to an engine that does not embed."""
    return RequestError(
        "this server does not embed; start it with --convert embed to generate and "
        "embed, or with --runner pooling to embed only"
    )
