"""Pooling: how a prompt's hidden states become its embedding.

A request with a `Pooling` is a prefill alone: it is scheduled like others and ends with
its last prompt token, after which no token is sampled.
"""

from enum import StrEnum

import msgspec

from hookline.pooling import POOLING, PooledVectors
from hookline.sections import Section


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


class PooledStep(msgspec.Struct, frozen=True, array_like=True):
    """The vectors of a step.

    Attributes:
        vectors: They by the id of their request, whose prompt is complete.
    """

    vectors: dict[int, PooledVectors]


REQUEST = Section(POOLING, Pooling)
"""How a request is pooled."""
RESULT = Section(POOLING, PooledStep)
"""What a step has pooled."""
