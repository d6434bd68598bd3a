"""Messages of `/v1/models`."""

import msgspec


class ModelCard(msgspec.Struct, frozen=True, kw_only=True):
    """A model that can be asked for."""

    id: str
    object: str = "model"
    created: int
    owned_by: str = "hookline"
    root: str
    max_model_len: int


class ModelList(msgspec.Struct, frozen=True, kw_only=True):
    """All models that can be asked for."""

    object: str = "list"
    data: list[ModelCard]
