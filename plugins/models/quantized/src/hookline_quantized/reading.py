"""Reads quantized layers of a checkpoint into a model.

`transformers` loads the model first, with weights of quantized layers that take no
memory (one number, repeated); it renames and ties them as usual. Then each is replaced
by the layer that is read from the files.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import torch
from torch import nn
from transformers import PreTrainedModel

from hookline.exceptions import ModelLoadError
from hookline_kernels import KernelError
from hookline_models.checkpoints.cut import Cut
from hookline_models.quantization import ReadTensor, StoredTensor, StoredWeights
from hookline_quantized.joining import quantized_linear
from hookline_quantized.unpacked import CheckpointFormat, Parts


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


class QuantizedCheckpoint:
    """A checkpoint's quantized layers.

    Attributes:
        tensors: What `transformers` loads: the other tensors, and placeholders.
    """

    def __init__(
        self,
        name: str,
        weights: StoredWeights,
        layout: CheckpointFormat,
        dtype: torch.dtype,
    ) -> None:
        """Finds the layers; reads only headers.

        Args:
            name: The model's name, for errors.
            weights: The checkpoint. Quantized layers are read whole, because formats
                pack numbers of several ranks together, and then cut.
            layout: How it stores quantized layers.
            dtype: Data type of what is not quantized.

        Raises:
            ModelLoadError: There are none, or experts are quantized.
        """
        self._name, self._layout, self._dtype = name, layout, dtype
        self._weights = weights
        layers = _quantized_layers(weights.whole, layout)
        experts = [prefix for prefix in layers if ".experts." in prefix]
        if not layers or experts:
            reason = "its experts are quantized" if experts else "none is quantized"
            raise ModelLoadError(
                name, f"quantized linear layers are expected, but {reason}"
            )
        self._layers: dict[int, tuple[str, Parts]] = {}
        self.tensors: dict[str, ReadTensor] = {
            key: shard
            for key, shard in weights.own.items()
            if key.rpartition(".")[2] not in layers.get(key.rpartition(".")[0], {})
        }
        for prefix, parts in layers.items():
            shape = layout.shape(parts)
            outputs, inputs = self._cut(prefix, shape).shape(shape)
            place = Placeholder((outputs, inputs), dtype)
            self.tensors[f"{prefix}.weight"] = place
            self._layers[place.address] = (prefix, parts)

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
                    prefix, parts = self._layers[address]
                    layer = self._layer(prefix, parts, child.bias, may_compile)
                    setattr(parent, key, layer)
        if left and reads_all:
            (prefix, _), *_ = left.values()
            raise ModelLoadError(
                self._name, f"{prefix} is quantized, but is no plain linear layer"
            )

    def _layer(
        self,
        prefix: str,
        parts: Parts,
        bias: torch.Tensor | None,
        may_compile: bool,
    ) -> nn.Module:
        try:
            whole = self._layout.read(parts)
            weight = whole.part(self._cut(prefix, whole.codes.shape)).packed()
        except (ValueError, RuntimeError, KernelError) as error:
            raise ModelLoadError(self._name, f"{prefix}: {error}") from error
        return quantized_linear(weight, bias, self._dtype, may_compile=may_compile)

    def _cut(self, prefix: str, shape: Sequence[int]) -> Cut:
        """Returns which part of a layer's weight a rank holds."""
        return self._weights.cut(f"{prefix}.weight", shape)


def _quantized_layers(
    tensors: Mapping[str, StoredTensor], layout: CheckpointFormat
) -> Mapping[str, Parts]:
    """Returns the parts of each layer that has the format's mark, by its name."""
    layers: defaultdict[str, dict[str, StoredTensor]] = defaultdict(dict)
    for key, tensor in tensors.items():
        prefix, _, last = key.rpartition(".")
        if last in layout.parts and f"{prefix}.{layout.mark}" in tensors:
            layers[prefix][last] = tensor
    return layers
