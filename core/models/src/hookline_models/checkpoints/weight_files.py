"""Reads a model's safetensors files; of each tensor only one rank's slice."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import EllipsisType
from typing import Any, Self

import torch
from safetensors import SafetensorError, safe_open
from torch import nn

from hookline.exceptions import ModelLoadError
from hookline_models.checkpoints.cut import Cut, InMemory, Stored, WeightPlan
from hookline_models.checkpoints.finite import NonFinite, non_finite
from hookline_models.checkpoints.weight_names import (
    INDEX_FILE,
    damage_of,
    find_weights,
    refuse_original_names,
)
from hookline_processes.model_files import real_model_file

Examine = Callable[[str, torch.Tensor], None]
"""(name in a file, what was read of the tensor) → None."""


class TensorShard:
    """One rank's part of a stored tensor; nothing is read until it is indexed."""

    def __init__(
        self,
        name: str,
        source: Stored,
        plan: WeightPlan,
        examine: Examine | None = None,
    ) -> None:
        """Wraps a tensor and the plan of the part; `examine` gets what is read."""
        self._name, self._source, self._plan = name, source, plan
        self._examine = examine

    def get_dtype(self) -> str:
        """Data type as safetensors names it; quantizers of `transformers` ask."""
        return self._source.get_dtype()

    def get_shape(self) -> list[int]:
        """Shape of the part.

        Raises:
            ValueError: The ranks cannot divide the tensor evenly.
        """
        return self._cut.shape(self._source.get_shape())

    def __getitem__(self, _index: EllipsisType) -> torch.Tensor:
        """Reads the whole part; `transformers` asks for `[...]`.

        Raises:
            ValueError: The ranks cannot divide the tensor evenly.
        """
        part = self._cut.read(self._source)
        if self._examine is not None:
            self._examine(self._name, part)
        return part

    def rows(self, start: int, stop: int) -> torch.Tensor:
        """Reads a range of rows of the whole tensor, and examines nothing."""
        return self._source[slice(start, stop),]

    @property
    def _cut(self) -> Cut:
        return self._plan.cut(self._name, self._source.get_shape())


def stored_parts(model: nn.Module, plan: WeightPlan) -> dict[str, TensorShard]:
    """Returns the rank's part of every tensor of a model in memory, by name."""
    return {
        name: TensorShard(name, InMemory(tensor), plan)
        for name, tensor in model.state_dict().items()
    }


class WeightFiles:
    """A model folder's safetensors files, open as long as the context lasts.

    Tensors that were read stay valid afterwards.

    Attributes:
        names: What the files are called, and which are not read.
        absent: Tensors that the index finds in a file that lacks them, with that file.
        non_finite: Tensors that were read and have infinite numbers or NaN, by name.
    """

    def __init__(self, folder: Path) -> None:
        """Opens nothing yet.

        Raises:
            OSError: The folder has no files of weights, or not all of them.
            ValueError: The index is damaged, or a file is a link out of the folder.
        """
        self.names = find_weights(folder)
        self.absent: dict[str, str] = {}
        self.non_finite: dict[str, NonFinite] = {}
        self._homes = self.names.homes
        self._paths = [real_model_file(folder, name) for name in self.names.files]
        self._open = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._open.close()

    def shards(self, plan: WeightPlan) -> dict[str, TensorShard]:
        """Returns the rank's part of every tensor that it has any of, by name.

        Reads only the headers.

        Raises:
            OSError: A file is missing.
            SafetensorError: A file is damaged.
            ValueError: Two files have the same tensor, or names of another format.
        """
        found: dict[str, TensorShard] = {}
        homes: dict[str, str] = {}
        for path in self._paths:
            file = self._opened(path)
            names = list(file.keys())
            refuse_original_names(path.name, names)
            self._note_absent(path.name, names)
            for name in names:
                if self._homes.get(name, path.name) != path.name:
                    continue  # the index names another file
                if name in homes:
                    raise ValueError(f"{name} is in {homes[name]} and in {path.name}")
                homes[name] = path.name
                if plan.has(name):
                    source = file.get_slice(name)
                    found[name] = TensorShard(name, source, plan, self._examine)
        return found

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Adds to a `ModelLoadError` what the index says of missing tensors."""
        try:
            yield
        except ModelLoadError as error:
            if not self.absent:
                raise
            raise ModelLoadError(
                error.model, f"{error.reason}; {self.absent_in_words()}"
            ) from error

    def absent_in_words(self) -> str:
        """Names one of the tensors that files lack; there must be one."""
        name, file = next(iter(self.absent.items()))
        return (
            f"{INDEX_FILE} finds {len(self.absent)} tensors in files that lack them, "
            f"such as {name} in {file}"
        )

    def _opened(self, path: Path) -> Any:
        try:
            return self._open.enter_context(safe_open(path, framework="pt"))
        except SafetensorError as error:
            reason = f"{path.name} {damage_of(path) or 'is damaged'} ({error})"
            raise SafetensorError(reason) from error

    def _note_absent(self, file: str, names: list[str]) -> None:
        """Notes the tensors that the index finds in a file that lacks them."""
        asked = {name for name, home in self._homes.items() if home == file}
        self.absent.update((name, file) for name in sorted(asked.difference(names)))

    def _examine(self, name: str, part: torch.Tensor) -> None:
        if (found := non_finite(name, part)) is not None:
            self.non_finite[name] = found
