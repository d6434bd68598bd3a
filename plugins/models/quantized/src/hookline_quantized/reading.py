"""Reads quantized layers of a checkpoint into a model.

`transformers` loads the model first, with weights of quantized layers that take no
memory (one number, repeated); it renames and ties them as usual. Then each is replaced
by the layer that is read from the files.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import nn
from transformers import PreTrainedModel

from hookline.exceptions import ModelLoadError
from hookline_kernels import KernelError
from hookline_models.checkpoints.cut import Cut
from hookline_models.quantization import StoredTensor, StoredWeights
from hookline_quantized.floats import ComputedTensor
from hookline_quantized.joining import quantized_linear
from hookline_quantized.unpacked import CheckpointFormat

_EXPERTS = ".experts."


class Placeholder:
    """Stands for the weight of a quantized layer."""

    def __init__(self, shape: tuple[int, int], dtype: torch.dtype) -> None:
        """Allocates one number."""
        self._one = torch.zeros(1, dtype=dtype)
        self._shape = shape

    @property
    def address(self) -> int:
        """Identifies it in the loaded model."""
        return self._one.data_ptr()

    def get_shape(self) -> list[int]:
        return list(self._shape)

    def get_dtype(self) -> str:
        """Data type as safetensors names it."""
        return "BF16" if self._one.dtype == torch.bfloat16 else "F32"

    def __getitem__(self, _: object) -> torch.Tensor:
        return self._one.expand(self._shape)


@dataclass(frozen=True, slots=True)
class StoredLayer:
    """A quantized layer's name, its format, and its parts by their names."""

    prefix: str
    layout: CheckpointFormat
    parts: dict[str, StoredTensor]


class ExpertTensor(ComputedTensor):
    """The weight of an expert's layer, dequantized: a family joins all experts'."""

    def __init__(
        self, layer: StoredLayer, shape: Sequence[int], cut: Cut, dtype: torch.dtype
    ) -> None:
        """Reads nothing yet."""
        super().__init__(shape, cut, dtype)
        self._layer = layer

    def whole(self) -> torch.Tensor:
        """Raises `ValueError` if parts of the layer do not fit."""
        return self._layer.layout.read(self._layer.parts).values().to(self._dtype)


class QuantizedCheckpoint:
    """A checkpoint's quantized layers.

    Attributes:
        tensors: What `transformers` loads: the other tensors, placeholders, and experts
            that are dequantized.
        num_dequantized: How many of the last there are.
    """

    def __init__(
        self,
        name: str,
        weights: StoredWeights,
        layouts: Sequence[CheckpointFormat],
        dtype: torch.dtype,
    ) -> None:
        """Finds the layers; reads only headers.

        Args:
            name: The model's name, for errors.
            weights: The checkpoint. Quantized layers are read whole, because formats
                pack numbers of several ranks together, and then cut.
            layouts: How it stores quantized layers, of which each is that of the first
                that fits.
            dtype: Data type of what is not quantized.
        """
        self._name, self._dtype, self._weights = name, dtype, weights
        self.num_dequantized = 0
        self._layers: dict[int, StoredLayer] = {}
        self.tensors: dict[str, StoredTensor] = dict(weights.own)
        layers = _quantized_layers(weights.whole, layouts)
        for layer in layers:
            for part in layer.parts:
                self.tensors.pop(f"{layer.prefix}.{part}", None)
        for layer in layers:
            self._add(layer)

    @property
    def is_empty(self) -> bool:
        """Whether no layer is quantized."""
        return not self._layers and not self.num_dequantized

    def _add(self, layer: "StoredLayer") -> None:
        """Adds what `transformers` loads in place of a layer."""
        name, shape = f"{layer.prefix}.weight", layer.layout.shape(layer.parts)
        cut = self._weights.cut(name, shape)
        if _EXPERTS not in layer.prefix:
            outputs, inputs = cut.shape(shape)
            place = Placeholder((outputs, inputs), self._dtype)
            self.tensors[name] = place
            self._layers[place.address] = layer
        elif f"{layer.prefix}.{layer.layout.mark}" in self._weights.own:
            self.tensors[name] = ExpertTensor(layer, shape, cut, self._dtype)
            self.num_dequantized += 1

    def fill(
        self, model: PreTrainedModel, *, may_compile: bool, reads_all: bool
    ) -> None:
        """Replaces placeholders in a loaded model by the layers.

        Args:
            model: Loaded from `tensors`.
            may_compile: Layers use kernels.
            reads_all: The model has all layers of the checkpoint.

        Raises:
            ModelLoadError: A layer is damaged, or is no plain linear layer.
        """
        left = dict(self._layers)
        for parent in list(model.modules()):
            for key, child in list(parent.named_children()):
                if type(child) is not nn.Linear:
                    continue
                address = child.weight.untyped_storage().data_ptr()
                if address in self._layers:
                    left.pop(address, None)
                    found = self._layers[address]
                    layer = self._layer(found, child.bias, may_compile=may_compile)
                    setattr(parent, key, layer)
        if left and reads_all:
            first, *_ = left.values()
            raise ModelLoadError(
                self._name, f"{first.prefix} is quantized, but is no plain linear layer"
            )

    def _layer(
        self, layer: StoredLayer, bias: torch.Tensor | None, *, may_compile: bool
    ) -> nn.Module:
        try:
            whole = layer.layout.read(layer.parts)
            cut = self._weights.cut(f"{layer.prefix}.weight", whole.codes.shape)
            weight = whole.part(cut).packed()
        except (ValueError, RuntimeError, KernelError) as error:
            raise ModelLoadError(self._name, f"{layer.prefix}: {error}") from error
        return quantized_linear(weight, bias, self._dtype, may_compile=may_compile)


def _quantized_layers(
    tensors: Mapping[str, StoredTensor], layouts: Sequence[CheckpointFormat]
) -> list[StoredLayer]:
    """Returns each layer that has the mark of a format."""
    layers: dict[str, StoredLayer] = {}
    for key, tensor in tensors.items():
        prefix, _, last = key.rpartition(".")
        for layout in layouts:
            if last in layout.parts and f"{prefix}.{layout.mark}" in tensors:
                found = layers.setdefault(prefix, StoredLayer(prefix, layout, {}))
                found.parts[last] = tensor
                break
    return list(layers.values())
