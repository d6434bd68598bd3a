"""Opens a checkpoint's weights: by a plugin that knows their format, or safetensors."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self, cast

import torch

from hookline.config.model import ModelConfig
from hookline.plugins.calling import call_plugin
from hookline.plugins.kinds import MODEL_LOADER
from hookline_models.checkpoints.cut import WeightPlan
from hookline_models.checkpoints.finite import NonFinite, non_finite
from hookline_models.checkpoints.weight_files import TensorShard, WeightFiles
from hookline_models.checkpoints.weight_names import WeightNames
from hookline_models.model_loader import LoaderContext, ModelLoader
from hookline_registry import installed


class LoadedFiles:
    """A checkpoint that a plugin reads; has what `WeightFiles` has.

    Attributes:
        names: What the files are called.
        absent: Nothing: a loader finds all tensors itself.
        non_finite: Tensors that were read and have infinite numbers or NaN, by name.
    """

    def __init__(self, loader: ModelLoader) -> None:
        """Opens nothing yet."""
        self.names = WeightNames(files=loader.files)
        self.absent: dict[str, str] = {}
        self.non_finite: dict[str, NonFinite] = {}
        self._loader = loader

    def __enter__(self) -> Self:
        self._loader.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loader.__exit__(kind, error, trace)

    def shards(self, plan: WeightPlan) -> dict[str, TensorShard]:
        """Returns the rank's part of every tensor that it has any of, by name.

        Raises:
            ModelLoadError: The files are damaged.
        """
        return {
            name: TensorShard(name, stored, plan, self._examine)
            for name, stored in self._loader.tensors().items()
            if plan.has(name)
        }

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Adds nothing to errors."""
        yield

    def absent_in_words(self) -> str:
        """Names none."""
        return ""

    def _examine(self, name: str, part: torch.Tensor) -> None:
        if (found := non_finite(name, part)) is not None:
            self.non_finite[name] = found


def open_weights(config: ModelConfig, folder: Path) -> WeightFiles | LoadedFiles:
    """Returns a folder's weights, to be entered.

    Args:
        config: The model's configuration.
        folder: The model's folder.

    Raises:
        OSError: The folder has no files of weights, or not all of them.
        ValueError: The index is damaged, or a file is a link out of the folder.
        ModelLoadError: A loader knows the format, and refuses the files.
        ConfigError: A loader is broken.
    """
    context = LoaderContext(config=config, folder=folder)
    for plugin in installed(MODEL_LOADER.group):
        made = call_plugin(MODEL_LOADER, plugin.name, context, option="load-format")
        if made is not None:
            return LoadedFiles(cast("ModelLoader", made))
    return WeightFiles(folder)
