"""The interface of quantization methods, which read or make quantized weights."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import EllipsisType
from typing import TYPE_CHECKING, Protocol

from hookline.config.model import ModelConfig

if TYPE_CHECKING:  # hooks are specified without torch
    import torch
    from transformers import PreTrainedModel


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizationContext:
    """Payload of `create_quantization_method`: the model to load.

    Attributes:
        name: Name of the method: that of the checkpoint, or of `--quantization`.
        config: The model's configuration.
        entries: What config.json says of quantized weights; empty if they are plain.
    """

    name: str
    config: ModelConfig
    entries: Mapping[str, object] = field(default_factory=dict)


class ReadTensor(Protocol):
    """A tensor that is read when it is indexed."""

    def get_dtype(self) -> str:
        """Returns the data type as safetensors names it."""
        ...

    def __getitem__(self, index: EllipsisType) -> "torch.Tensor": ...


class StoredTensor(ReadTensor, Protocol):
    """A tensor in a file, or one rank's part of it."""

    def get_shape(self) -> list[int]: ...


class TensorCut(Protocol):
    """The part of a tensor that one rank holds.

    Attributes:
        dim: Dimension along which the tensor is cut.
        pieces: Ranges along it, joined in this order; None is everything.
    """

    @property
    def dim(self) -> int: ...

    @property
    def pieces(self) -> tuple[tuple[int, int], ...] | None: ...

    def shape(self, whole: Sequence[int]) -> list[int]:
        """Returns the part's shape."""
        ...

    def of(self, tensor: "torch.Tensor") -> "torch.Tensor":
        """Returns the part of a tensor in memory."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredWeights:
    """A checkpoint's tensors, which stay readable until the model is made.

    Attributes:
        own: What the rank reads of each tensor, by name.
        whole: The same tensors undivided.
        cut: Returns the part that the rank holds of a tensor of this name and shape;
            raises `ValueError` if the ranks cannot divide it evenly.
    """

    own: Mapping[str, StoredTensor]
    whole: Mapping[str, StoredTensor]
    cut: Callable[[str, Sequence[int]], TensorCut]


class QuantizationMethod(Protocol):
    """How the weights of one model are quantized; made anew for each load.

    The loader calls `activation_dtype`; then `read`, makes a model of what that
    returns, and calls `fill` and `use_cache_scales`, unless weights are random; then
    `quantize`. Layers whose weights are quantized are `QuantizedLayer`s of
    `hookline_kernels.modules.quantized_layer`.
    """

    def activation_dtype(
        self, dtype: "torch.dtype", device: "torch.device"
    ) -> "torch.dtype":
        """Returns the data type to compute in, instead of the one given.

        Raises:
            ModelLoadError: No kernels support the data type or the device.
        """
        ...

    def read(
        self, weights: StoredWeights, dtype: "torch.dtype"
    ) -> Mapping[str, ReadTensor]:
        """Returns tensors with the names and shapes of a model that is not quantized.

        Args:
            weights: The checkpoint.
            dtype: Data type of what is not quantized.

        Raises:
            ModelLoadError: The checkpoint does not fit what its configuration says.
        """
        ...

    def fill(
        self, model: "PreTrainedModel", *, may_compile: bool, reads_all: bool
    ) -> None:
        """Replaces layers of a model that was made of what `read` returned.

        Args:
            model: The model.
            may_compile: Layers use kernels.
            reads_all: The model has all layers of the checkpoint.

        Raises:
            ModelLoadError: A layer is damaged or of another kind.
        """
        ...

    def use_cache_scales(
        self,
        model: "PreTrainedModel",
        tensors: Mapping[str, StoredTensor],
        cache_dtype: "torch.dtype | None",
    ) -> None:
        """Uses the checkpoint's scales for a KV cache in 8 bits, if it has any.

        Args:
            model: Loaded, with plain or quantized layers.
            tensors: The checkpoint's, by name.
            cache_dtype: Data type of the KV cache, if it has 8 bits.
        """
        ...

    def quantize(self, model: "PreTrainedModel", *, may_compile: bool) -> None:
        """Quantizes a loaded model in place, if that was asked for.

        Raises:
            ModelLoadError: No layer can be quantized.
        """
        ...
