"""Messages of `/v1/models`."""

import msgspec


class ModelCard(msgspec.Struct, frozen=True, kw_only=True):
    """A served model."""

    id: str
    object: str = "model"
    created: int
    owned_by: str = "hookline"
    root: str
    max_model_len: int


class ModelList(msgspec.Struct, frozen=True, kw_only=True):
    """All served models."""

    object: str = "list"
    data: list[ModelCard]
