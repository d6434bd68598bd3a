"""How an engine pools, and which embeddings it therefore serves."""

from collections.abc import Sequence
from dataclasses import dataclass

from hookline.exceptions import RequestError
from hookline.pooling import TASKS, PoolingParams
from hookline.request_part import RequestPart
from hookline_pooling.pooling import Pooling, PoolingType


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

    def prepared(
        self,
        asked: object | None,
        request: object | None = None,  # noqa: ARG002
    ) -> RequestPart | None:
        """Returns a request's pooling; None if it generates.

        Raises:
            RequestError: The engine only embeds, or not as the client asks.
        """
        if isinstance(asked, PoolingParams):
            pooling = self.pooling(asked)
            return RequestPart(
                section=pooling,
                is_prefill_only=True,
                skip_reading_prefix_cache=pooling.needs_every_position,
            )
        if self.is_alone:
            raise RequestError(
                "this server only embeds; to generate as well, start it with "
                "--convert embed"
            )
        return None

    def num_values(self, asked: PoolingParams, prompts: Sequence[int]) -> int:
        """Returns how many numbers the vectors of prompts of these lengths have.

        Raises:
            RequestError: The engine does not embed as the client asks.
        """
        pooling = self.pooling(asked)
        has_all = pooling.kind is PoolingType.ALL
        return (sum(prompts) if has_all else len(prompts)) * self.size(pooling)

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
