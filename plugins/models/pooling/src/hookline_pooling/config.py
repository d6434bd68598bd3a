"""Embeddings: `--pooler-config`, with the keys of vLLM."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from hookline.config.checks import check_keys, check_whole, one_of
from hookline.config.extensions import POOLER_OPTION as OPTION
from hookline.exceptions import ConfigError
from hookline_pooling.pooling import PoolingType

ALIASES = {"seq_pooling_type": "pooling_type", "use_activation": "normalize"}
"""Keys of newer releases of vLLM, which here mean the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolerConfig:
    """How hidden states are pooled; None means what the model's folder says.

    Attributes:
        pooling_type: Which hidden states count: `LAST`, `MEAN` or `CLS`.
        normalize: Whether vectors are scaled to length 1.
        dimensions: Number of components of vectors unless a request asks for another.
        is_matryoshka: Whether requests may ask for fewer components.
    """

    pooling_type: PoolingType | None = None
    normalize: bool | None = None
    dimensions: int | None = None
    is_matryoshka: bool | None = None

    def __post_init__(self) -> None:
        if self.pooling_type is not None:
            kind = one_of(OPTION, "pooling_type", PoolingType, self.pooling_type)
            if kind is PoolingType.ALL:
                raise ConfigError(
                    OPTION,
                    "pooling_type must be LAST, MEAN or CLS: for one vector per token, "
                    'send requests to /pooling with "task": "token_embed"',
                )
            object.__setattr__(self, "pooling_type", kind)
        for name in ("normalize", "is_matryoshka"):
            if not isinstance(getattr(self, name), bool | None):
                raise ConfigError(OPTION, f"{name} must be true or false")
        if self.dimensions is not None:
            check_whole(OPTION, "dimensions", self.dimensions)

    @classmethod
    def from_mapping(cls, given: Mapping[str, object]) -> Self:
        """Makes the configuration from the keys that users write.

        Raises:
            ConfigError: A key is unknown or given twice, or a value is wrong.
        """
        names = ("pooling_type", "normalize", "dimensions", "is_matryoshka")
        check_keys(OPTION, given, (*names, *ALIASES))
        values: dict[str, object] = {}
        for key, value in given.items():
            name = ALIASES.get(key, key)
            if name in values:
                raise ConfigError(OPTION, f"{key} and {name} mean the same: give one")
            values[name] = value
        return cls(**values)  # type: ignore[arg-type]
