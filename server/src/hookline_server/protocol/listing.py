"""Messages of `/v1/models`."""

from typing import Literal

import msgspec


class ModelCard(msgspec.Struct, frozen=True, kw_only=True):
    """A served model."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "hookline"
    root: str
    max_model_len: int


class ModelList(msgspec.Struct, frozen=True, kw_only=True):
    """All served models."""

    object: Literal["list"] = "list"
    data: list[ModelCard]
