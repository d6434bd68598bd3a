"""Weights in 8-bit floats, dequantized as they are read: no kernel multiplies them.

A weight is stored as E4M3 or E5M2 numbers (Micikevicius et al. 2022) with a scale for
all of them, for each output, or for each block of outputs and inputs: as DeepSeek and
Qwen store theirs, FBGEMM, ModelOpt, AutoFP8, and compressed-tensors.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from hookline_models.checkpoints.cut import Cut
from hookline_models.quantization import StoredTensor, StoredWeights

Block = tuple[int, int]
"""Outputs and inputs that share a scale."""

_WEIGHT = ".weight"
_DTYPES = {"F8_E4M3", "F8_E5M2"}
_SCALES = ("weight_scale_inv", "weight_scale")
"""Names of a weight's scales, all of which multiply: DeepSeek's says what it undoes."""
_OF_ACTIVATIONS = ("input_scale", "input_scale_ub", "input_zero_point")
_PIECE = 1 << 24
"""Numbers that are dequantized at a time, which bounds the float32 copy."""
_NAMES = {torch.bfloat16: "BF16", torch.float16: "F16", torch.float32: "F32"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FloatWeights:
    """How a checkpoint's floats of 8 bits have scales.

    Attributes:
        blocks: The sizes of blocks that the configuration names, if it names any.
    """

    blocks: tuple[Block, ...] = ()


class ComputedTensor:
    """A weight that is computed when it is read; implements `StoredTensor`."""

    def __init__(self, shape: Sequence[int], cut: Cut, dtype: torch.dtype) -> None:
        """Computes nothing yet.

        Args:
            shape: Of the whole weight.
            cut: The part of it that the rank holds.
            dtype: Data type of the numbers.
        """
        self._shape, self._cut, self._dtype = list(shape), cut, dtype

    def get_shape(self) -> list[int]:
        return self._cut.shape(self._shape)

    def get_dtype(self) -> str:
        """Data type as safetensors names it."""
        return _NAMES[self._dtype]

    def __getitem__(self, _: object) -> torch.Tensor:
        """Returns the rank's part."""
        return self._cut.of(self.whole())

    def whole(self) -> torch.Tensor:
        """Computes the weight."""
        raise NotImplementedError


class FloatTensor(ComputedTensor):
    """A weight of floats and their scales."""

    def __init__(
        self,
        weight: StoredTensor,
        scale: StoredTensor,
        blocks: Sequence[Block],
        cut: Cut,
        dtype: torch.dtype,
    ) -> None:
        """Reads nothing yet.

        Raises:
            ValueError: The scales do not fit the weight.
        """
        super().__init__(weight.get_shape(), cut, dtype)
        self._weight, self._scale = weight, scale
        self._block = block_of(weight.get_shape(), scale.get_shape(), blocks)

    def whole(self) -> torch.Tensor:
        weight, scale = self._weight[...], self._scale[...]
        return dequantize(weight, scale, self._block, self._dtype)


def block_of(
    weight: Sequence[int], scale: Sequence[int], named: Sequence[Block] = ()
) -> Block:
    """Returns how many outputs and inputs of a weight share a scale.

    Args:
        weight: Shape of the weight.
        scale: Shape of its scales.
        named: Sizes of blocks that the last ones may be cut off from.

    Raises:
        ValueError: The shapes do not fit.
    """
    if len(weight) != 2:
        raise ValueError(f"has {len(weight)} dimensions; a quantized layer has 2")
    outputs, inputs = weight
    sizes = [size for size in scale if size != 1]
    if not sizes:
        return outputs, inputs
    rows, columns = grid = _grid(outputs, sizes, scale)
    for rows_each, columns_each in named:
        if grid == (-(-outputs // rows_each), -(-inputs // columns_each)):
            return rows_each, columns_each
    if outputs % rows or inputs % columns:
        raise ValueError(
            f"has {outputs} by {inputs} numbers, which its scales of the shape "
            f"{list(scale)} do not fit"
        )
    return outputs // rows, inputs // columns


def _grid(outputs: int, sizes: Sequence[int], scale: Sequence[int]) -> tuple[int, int]:
    """Returns how many scales there are along outputs and inputs."""
    if len(scale) == 2:
        return scale[0], scale[1]
    if len(sizes) == 1:
        return (sizes[0], 1) if sizes[0] == outputs else (1, sizes[0])
    if len(sizes) == 2:
        return sizes[0], sizes[1]
    raise ValueError(f"has scales of {len(scale)} dimensions")


def dequantize(
    weight: torch.Tensor, scale: torch.Tensor, block: Block, dtype: torch.dtype
) -> torch.Tensor:
    """Returns weight · scale, computed in float32 and rounded once.

    Args:
        weight: [out, in] in 8-bit floats.
        scale: One for each block, in any shape.
        block: Outputs and inputs that share a scale.
        dtype: Data type of the result.
    """
    outputs, inputs = weight.shape
    rows_each, columns_each = block
    columns = -(-inputs // columns_each)
    grid = scale.float().reshape(-1, columns)
    found = torch.empty(outputs, inputs, dtype=dtype)
    step = max(1, _PIECE // (inputs * rows_each)) * rows_each
    for start in range(0, outputs, step):
        piece = weight[start : start + step].float()
        own = grid[start // rows_each : -(-(start + len(piece)) // rows_each)]
        factors = own.repeat_interleave(rows_each, 0)[: len(piece)]
        if columns > 1:
            factors = factors.repeat_interleave(columns_each, 1)[:, :inputs]
        found[start : start + step] = piece.mul_(factors)
    return found


def dequantized(
    weights: StoredWeights, floats: FloatWeights, dtype: torch.dtype
) -> tuple[StoredWeights, int]:
    """Replaces weights of floats and their scales by the weights that they stand for.

    Returns:
        The tensors, and how many weights were replaced.

    Raises:
        ValueError: A weight has no scale, or its scales do not fit.
    """
    found: dict[str, StoredTensor] = {}
    for name, weight in weights.whole.items():
        if not name.endswith(_WEIGHT) or weight.get_dtype() not in _DTYPES:
            continue
        prefix = name.removesuffix("weight")
        names = (each for each in _SCALES if prefix + each in weights.whole)
        if (scale := next(names, None)) is None:
            raise ValueError(f"{name} is in 8-bit floats and has no {_SCALES[1]}")
        try:
            found[name] = FloatTensor(
                weight,
                weights.whole[prefix + scale],
                floats.blocks,
                weights.cut(name, weight.get_shape()),
                dtype,
            )
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
    used = {
        name.removesuffix("weight") + part
        for name in found
        for part in (*_SCALES, *_OF_ACTIVATIONS)
    }
    left = _without(weights, used)
    own = {name: each for name, each in found.items() if name in weights.own}
    return (
        StoredWeights(
            own={**left.own, **own}, whole={**left.whole, **found}, cut=weights.cut
        ),
        len(found),
    )


def _without(weights: StoredWeights, names: set[str]) -> StoredWeights:
    def kept(tensors: Mapping[str, StoredTensor]) -> dict[str, StoredTensor]:
        return {name: each for name, each in tensors.items() if name not in names}

    return StoredWeights(
        own=kept(weights.own), whole=kept(weights.whole), cut=weights.cut
    )
