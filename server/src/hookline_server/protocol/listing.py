"""Messages of `/v1/models`."""

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType


class ModelCard(msgspec.Struct, frozen=True, kw_only=True):
    """A served model.

    Attributes:
        parent: The model of an adapter; absent of the model itself.
        default_sampling_params: What requests get where they are silent; absent if
            nothing sets any.
    """

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "hookline"
    root: str
    parent: str | UnsetType = UNSET
    max_model_len: int
    default_sampling_params: dict[str, int | float] | UnsetType = UNSET


class ModelList(msgspec.Struct, frozen=True, kw_only=True):
    """All served models."""

    object: Literal["list"] = "list"
    data: list[ModelCard]
