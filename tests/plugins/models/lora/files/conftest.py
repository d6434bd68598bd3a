"""A small adapter, and ways to change its files."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from hookline_testing.adapters import decoder_shapes, make_adapter

CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"
Tensors = dict[str, torch.Tensor]


class AdapterFiles:
    """The files of an adapter whose base has `decoder_shapes()`."""

    def __init__(self, folder: Path) -> None:
        self.shapes = decoder_shapes()
        self.folder = make_adapter(folder, self.shapes)

    @property
    def config(self) -> Path:
        return self.folder / CONFIG

    @property
    def weights(self) -> Path:
        return self.folder / WEIGHTS

    def configure(self, **changes: Any) -> None:
        """Changes keys of the configuration."""
        found = json.loads(self.config.read_text())
        self.config.write_text(json.dumps({**found, **changes}))

    def change(self, change: Callable[[Tensors], object]) -> None:
        """Changes the tensors."""
        tensors = load_file(self.weights)
        change(tensors)
        save_file({name: each.clone() for name, each in tensors.items()}, self.weights)

    def describe_otherwise(self, change: Callable[[dict[str, Any]], object]) -> None:
        """Changes the header of the weights, and nothing behind it."""
        data = self.weights.read_bytes()
        end = 8 + int.from_bytes(data[:8], "little")
        header = json.loads(data[8:end])
        change(header)
        written = json.dumps(header).encode()
        size = len(written).to_bytes(8, "little")
        self.weights.write_bytes(size + written + data[end:])


@pytest.fixture
def files(tmp_path: Path) -> AdapterFiles:
    return AdapterFiles(tmp_path / "adapter")
