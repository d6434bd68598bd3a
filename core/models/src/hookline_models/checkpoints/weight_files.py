"""Reads a model's safetensors files; of each tensor only one rank's slice."""

import json
from contextlib import ExitStack
from pathlib import Path
from types import EllipsisType
from typing import Self

import torch
from safetensors import safe_open
from torch import nn

from hookline_models.checkpoints.cut import Cut, InMemory, Stored, WeightPlan
from hookline_processes.model_files import read_model_file, real_model_file

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"


class TensorShard:
    """One rank's part of a stored tensor; nothing is read until it is indexed."""

    def __init__(self, name: str, source: Stored, plan: WeightPlan) -> None:
        """Wraps a tensor and the plan of the part to read."""
        self._name, self._source, self._plan = name, source, plan

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
        return self._cut.read(self._source)

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
    """

    def __init__(self, folder: Path) -> None:
        """Opens nothing yet.

        Raises:
            OSError: The folder has neither of the two files that list the weights.
            ValueError: The index is damaged, or a file is a link out of the folder.
        """
        self._paths = [real_model_file(folder, name) for name in _file_names(folder)]
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
        """
        found = {}
        for path in self._paths:
            file = self._open.enter_context(safe_open(path, framework="pt"))
            for name in file.keys():  # noqa: SIM118 - it is no mapping
                if plan.has(name):
                    found[name] = TensorShard(name, file.get_slice(name), plan)
        return found


def _file_names(folder: Path) -> list[str]:
    if (folder / SINGLE_FILE).is_file():
        return [SINGLE_FILE]
    if not (folder / INDEX_FILE).is_file():
        raise FileNotFoundError(
            f"it has neither {SINGLE_FILE} nor {INDEX_FILE}; weights are read from "
            "safetensors files only"
        )
    index = json.loads(read_model_file(folder / INDEX_FILE))
    files = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(files, dict):
        raise ValueError(f"{INDEX_FILE} has no weight_map")  # noqa: TRY004
    names = sorted({str(name) for name in files.values()})
    for name in names:
        if Path(name).name != name:
            raise ValueError(f"{INDEX_FILE} names {name!r}, which is not in the folder")
    return names
