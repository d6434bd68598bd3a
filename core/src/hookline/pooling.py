"""Pooling: how a prompt's hidden states become its embedding.

A request with a `Pooling` is a prefill alone: it is scheduled like others and ends with
its last prompt token, after which no token is sampled.
"""

from dataclasses import dataclass
from enum import StrEnum

import msgspec

from hookline.exceptions import RequestError

TASKS = ("embed", "token_embed")
"""One vector per prompt, and one per token."""


class PoolingType(StrEnum):
    """Which hidden states count, in vLLM's words.

    `ALL` keeps one vector per token.
    """

    LAST = "LAST"
    MEAN = "MEAN"
    CLS = "CLS"
    ALL = "ALL"


class Pooling(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The pooling of one request.

    Attributes:
        kind: Which hidden states count.
        normalize: Whether vectors are scaled to length 1.
        dimensions: Number of leading components that are kept; None keeps all.
    """

    kind: PoolingType
    normalize: bool = True
    dimensions: int | None = None

    @property
    def needs_every_position(self) -> bool:
        """Whether cached prefixes are of no use: their hidden states are needed."""
        return self.kind is not PoolingType.LAST


class PooledVectors(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The result of a pooling.

    Attributes:
        count: Number of vectors: 1, or one per prompt token.
        values: Their components one after the other, float32, little-endian.
    """

    count: int
    values: bytes


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


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolingFacts:
    """How an engine pools.

    Attributes:
        kind: Which hidden states count by default.
        normalize: Whether vectors have length 1 by default.
        hidden_size: Number of components of a hidden state.
        dimensions: Number of components by default; None is `hidden_size`.
        is_matryoshka: Whether a request may ask for fewer components.
        matryoshka_dimensions: The numbers it may ask for; empty allows all.
        is_alone: Whether the engine embeds only, and generates nothing.
    """

    kind: PoolingType
    normalize: bool
    hidden_size: int
    dimensions: int | None = None
    is_matryoshka: bool = False
    matryoshka_dimensions: tuple[int, ...] = ()
    is_alone: bool = False

    def pooling(self, params: PoolingParams) -> Pooling:
        """Returns the pooling that a client asks for.

        Raises:
            RequestError: The task is unknown, or the model cannot be cut so short.
        """
        if params.task not in TASKS:
            raise RequestError(
                f"task {params.task[:64]!r} is not supported; use {' or '.join(TASKS)}",
                param="task",
            )
        if params.dimensions is not None:
            self._check(params.dimensions)
        normalize = params.normalize
        return Pooling(
            kind=self.kind if params.task == "embed" else PoolingType.ALL,
            normalize=self.normalize if normalize is None else normalize,
            dimensions=params.dimensions or self.dimensions,
        )

    def size(self, pooling: Pooling) -> int:
        """Returns the number of components of each vector."""
        return min(pooling.dimensions or self.hidden_size, self.hidden_size)

    def _check(self, dimensions: int) -> None:
        if dimensions == (self.dimensions or self.hidden_size):
            return
        if not self.is_matryoshka:
            raise RequestError(
                "dimensions: config.json does not say that the model's vectors can be "
                "cut (is_matryoshka); if they can, start the server with "
                "--pooler-config '{\"is_matryoshka\": true}'",
                param="dimensions",
            )
        allowed = self.matryoshka_dimensions
        if allowed and dimensions not in allowed:
            numbers = ", ".join(map(str, allowed))
            raise RequestError(
                f"dimensions must be one of {numbers}", param="dimensions"
            )
        if not 1 <= dimensions <= self.hidden_size:
            raise RequestError(
                f"dimensions must be 1 to {self.hidden_size}", param="dimensions"
            )


def resolved(asked: PoolingParams | None, facts: PoolingFacts | None) -> Pooling | None:
    """Returns a request's pooling by what its engine can do; None if it generates.

    Raises:
        RequestError: The engine does not embed, or only embeds.
    """
    if asked is None:
        if facts is not None and facts.is_alone:
            raise RequestError(
                "this server only embeds; to generate as well, start it with "
                "--convert embed"
            )
        return None
    if facts is None:
        raise RequestError(
            "this server does not embed; start it with --convert embed to generate and "
            "embed, or with --runner pooling to embed only"
        )
    return facts.pooling(asked)
