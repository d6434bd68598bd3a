"""Makes quantized layers of the weights that a GGUF file has in 8 or 4 bits.

Formats whose blocks of 32 numbers share a scale are those of our kernels: codes and
scales stay what they are. All others are dequantized into the model's data type.
"""

import logging
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from types import EllipsisType

import torch
from gguf.constants import GGML_QUANT_SIZES
from gguf.constants import GGMLQuantizationType as Kind
from torch import nn
from transformers import PreTrainedModel

from hookline.config.model import ModelConfig
from hookline.exceptions import ModelLoadError
from hookline_gguf.blocks import HEAD, MARK, numbers
from hookline_gguf.packing import GROUP, packed
from hookline_kernels import KernelError
from hookline_kernels.quantized_weight import (
    BYTE_BITS,
    FLOAT_BITS,
    QuantizedWeight,
    pack,
)
from hookline_models.checkpoints.cut import Cut
from hookline_models.quantization import StoredTensor, StoredWeights
from hookline_quantized.joining import quantized_linear
from hookline_quantized.reading import Placeholder
from hookline_quantized.replacing import quantize
from hookline_quantized.scheme import MADE, Bits

_log = logging.getLogger(__name__)

_WITH_KERNELS = {torch.bfloat16, torch.float32}


@dataclass(frozen=True, slots=True)
class Blocks:
    """A weight of the file that is given as blocks.

    Attributes:
        prefix: Name of its layer.
        kind: Its format.
        stored: Its bytes, uint8 [out, bytes of a row].
        cut: What this rank has of it.
    """

    prefix: str
    kind: Kind
    stored: StoredTensor
    cut: Cut

    @property
    def shape(self) -> tuple[int, int]:
        """Outputs and inputs, of all ranks."""
        return blocks_shape(self.kind, self.stored.get_shape())

    def get_dtype(self) -> str:
        """Data type of its numbers as safetensors names it."""
        return "F32"

    def get_shape(self) -> list[int]:
        """Outputs and inputs of this rank's part."""
        return self.cut.shape(self.shape)

    def __getitem__(self, index: EllipsisType) -> torch.Tensor:
        """Returns the numbers of this rank's part, float32."""
        return self.cut.of(numbers(self.stored[...].numpy(), self.kind))[index]

    def weight(self, activation_bits: int) -> QuantizedWeight:
        """Returns this rank's part as kernels for such activations read it.

        Raises:
            KernelError: No kernel supports its shape.
        """
        whole = packed(self.stored[...].numpy(), self.kind)
        codes = self.cut.of(torch.from_numpy(whole.codes))
        of_groups = _of_groups(self.cut)
        scales = of_groups.of(torch.from_numpy(whole.scales))
        shifts = whole.shifts
        own = None if shifts is None else of_groups.of(torch.from_numpy(shifts))
        return pack(
            codes.contiguous(),
            scales,
            own,
            bits=whole.bits,
            activation_bits=activation_bits,
        )


class GgufMethod:
    """The weights of one model; implements `QuantizationMethod`."""

    def __init__(self, config: ModelConfig) -> None:
        """Reads nothing yet.

        Raises:
            ModelLoadError: `--quantization` names a format of other files.
        """
        if config.quantization is not None and config.quantization not in MADE:
            raise ModelLoadError(
                config.model,
                f"--quantization is {config.quantization}, but the checkpoint is GGUF",
            )
        self._config = config
        self._bits: Bits | None = None
        if config.quantization is not None:
            self._bits = MADE[config.quantization]
        self._has_kernels = False
        self._dtype = torch.float32
        self._layers: dict[int, Blocks] = {}
        self._head: Blocks | None = None

    def activation_dtype(self, dtype: torch.dtype, device: torch.device) -> torch.dtype:
        """Changes nothing: without kernels, weights are dequantized."""
        self._has_kernels = device.type == "cpu" and dtype in _WITH_KERNELS
        return dtype

    def read(
        self, weights: StoredWeights, dtype: torch.dtype
    ) -> Mapping[str, StoredTensor]:
        self._dtype = dtype
        tensors: dict[str, StoredTensor] = {}
        for name, own in weights.own.items():
            prefix, _, last = name.rpartition(".")
            if not last.startswith(MARK):
                tensors[name] = own
                continue
            stored, kind = weights.whole[name], Kind[last.removeprefix(MARK)]
            if prefix == HEAD:
                if weights.cut("lm_head.weight", stored.get_shape()).pieces is None:
                    self._head = Blocks(prefix, kind, stored, Cut())
                continue
            weight = f"{prefix}.weight"
            cut = weights.cut(weight, blocks_shape(kind, stored.get_shape()))
            blocks = Blocks(prefix, kind, stored, cut)
            tensors[weight] = blocks
            if self._has_kernels:
                outputs, inputs = blocks.get_shape()
                place = Placeholder((outputs, inputs), dtype)
                tensors[weight] = place
                self._layers[place.address] = blocks
        return tensors

    def fill(
        self, model: PreTrainedModel, *, may_compile: bool, reads_all: bool
    ) -> None:
        left = dict(self._layers)
        told: defaultdict[Kind, list[int]] = defaultdict(list)
        for parent in list(model.modules()):
            for key, child in list(parent.named_children()):
                if type(child) is not nn.Linear:
                    continue
                address = child.weight.untyped_storage().data_ptr()
                if (blocks := self._layers.get(address)) is not None:
                    left.pop(address, None)
                    layer = self._layer(blocks, child.bias, may_compile)
                    setattr(parent, key, layer)
                    told[blocks.kind].append(_nbytes(layer))
        if left and reads_all:
            blocks, *_ = left.values()
            raise ModelLoadError(
                self._config.model, f"{blocks.prefix} is no plain linear layer"
            )
        head = model.get_output_embeddings()
        if self._head and self._has_kernels and type(head) is nn.Linear:
            layer = self._layer(self._head, head.bias, may_compile)
            for key, child in list(model.named_children()):
                if child is head:
                    setattr(model, key, layer)
            told[self._head.kind].append(_nbytes(layer))
        self._tell(model, told)

    def use_cache_scales(
        self,
        model: PreTrainedModel,
        tensors: Mapping[str, StoredTensor],
        cache_dtype: torch.dtype | None,
    ) -> None:
        """Knows no scales."""

    def quantize(self, model: PreTrainedModel, *, may_compile: bool) -> None:
        """Quantizes what was dequantized, if `--quantization` asks for that."""
        if self._bits is not None:
            # The file's own blocks may be all that takes activations in 8 bits.
            has_integers = self._bits.activations == BYTE_BITS and self._layers
            quantize(
                self._config.model,
                model,
                self._bits,
                may_compile=may_compile,
                may_be_none=bool(has_integers),
            )

    def _layer(
        self, blocks: Blocks, bias: torch.Tensor | None, may_compile: bool
    ) -> nn.Module:
        activation_bits = self._bits.activations if self._bits else FLOAT_BITS
        try:
            weight = blocks.weight(activation_bits)
        except (KernelError, ValueError, RuntimeError) as error:
            raise ModelLoadError(
                self._config.model, f"{blocks.prefix}: {error}"
            ) from error
        return quantized_linear(weight, bias, self._dtype, may_compile=may_compile)

    def _tell(self, model: PreTrainedModel, told: Mapping[Kind, list[int]]) -> None:
        """Says in one line which weights stay quantized, and what the rest takes."""
        kept = [
            f"{len(sizes)} of {kind.name} ({sum(sizes) >> 20} MiB)"
            for kind, sizes in told.items()
        ]
        rest = {
            each.weight.data_ptr(): each.weight.nbytes
            for each in model.modules()
            if isinstance(each, nn.Embedding) or type(each) is nn.Linear
        }
        _log.info(
            "GGUF: weights that stay as they are: %s; dequantized to %s: %d (%d MiB)",
            ", ".join(kept) or "none",
            str(self._dtype).removeprefix("torch."),
            len(rest),
            sum(rest.values()) >> 20,
        )


def blocks_shape(kind: Kind, shape: list[int]) -> tuple[int, int]:
    """Returns outputs and inputs of a weight whose blocks have this shape."""
    block, nbytes = GGML_QUANT_SIZES[kind]
    outputs, row = shape
    return outputs, row // nbytes * block


def _of_groups(cut: Cut) -> Cut:
    """Returns the part that scales have of a part of the weight.

    Raises:
        ValueError: It ends within a group.
    """
    if cut.pieces is None or cut.dim == 0:
        return cut
    if any(each % GROUP for piece in cut.pieces for each in piece) or cut.padding:
        raise ValueError(f"ranks cannot divide its groups of {GROUP} inputs")
    pieces = tuple((start // GROUP, stop // GROUP) for start, stop in cut.pieces)
    return Cut(dim=cut.dim, pieces=pieces, is_zero=cut.is_zero)


def _nbytes(layer: nn.Module) -> int:
    return sum(each.nbytes for each in layer.parameters())
