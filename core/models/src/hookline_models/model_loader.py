"""Model loaders, which read checkpoints in other formats than safetensors.

It is imported without torch, as plugins of loaders are.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from hookline.config.model import ModelConfig

if TYPE_CHECKING:
    from hookline_models.checkpoints.cut import Stored


@dataclass(frozen=True, slots=True, kw_only=True)
class LoaderContext:
    """Payload of `create_model_loader`: the model to load.

    Attributes:
        config: The model's configuration.
        folder: Its folder, with `config.json`.
    """

    config: ModelConfig
    folder: Path


class ModelLoader(Protocol):
    """Reads the tensors of one checkpoint; made anew for each load.

    It is a context: files are open as long as it lasts. Tensors that were read stay
    valid afterwards.
    """

    @property
    def files(self) -> tuple[str, ...]:
        """Names of the files that are read, for people."""
        ...

    def __enter__(self) -> object: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> object: ...

    def tensors(self) -> "Mapping[str, Stored]":
        """Returns all tensors by the names that `transformers` has for them.

        Nothing of a tensor is read until it is indexed, perhaps in several parts.
        Weights that a quantization method fills in have the names and shapes that the
        method knows.

        Raises:
            ModelLoadError: The files are damaged, or not those of the folder.
        """
        ...
