"""Loads one model with quantized weights."""

import logging
from collections.abc import Mapping

import torch
from transformers import PreTrainedModel

from hookline.config import ModelConfig
from hookline.exceptions import ModelLoadError
from hookline_models.quantization import StoredTensor, StoredWeights
from hookline_quantized import mxfp4
from hookline_quantized.cache_scales import use_cache_scales
from hookline_quantized.checkpoint_format import FoundFormat
from hookline_quantized.floats import dequantized
from hookline_quantized.reading import QuantizedCheckpoint
from hookline_quantized.replacing import quantize
from hookline_quantized.scheme import Scheme, dtype_for

_log = logging.getLogger(__name__)


class Quantization:
    """How the weights of one model are quantized; implements `QuantizationMethod`."""

    def __init__(self, config: ModelConfig, scheme: Scheme) -> None:
        """Reads nothing yet."""
        self._config, self._scheme = config, scheme
        self._checkpoint: QuantizedCheckpoint | None = None

    def activation_dtype(self, dtype: torch.dtype, device: torch.device) -> torch.dtype:
        if not self._scheme.has_kernels:
            return dtype
        return dtype_for(self._config, dtype, device)

    def read(
        self, weights: StoredWeights, dtype: torch.dtype
    ) -> Mapping[str, StoredTensor]:
        """Raises `ValueError` if weights lack scales, or have others than they need."""
        found, count = self._scheme.found, 0
        if found is None:
            return weights.own
        if found.is_mxfp4:
            _log.info("Experts in MXFP4 are dequantized to bfloat16, which is exact")
            return mxfp4.dequantized(weights.own)
        if found.floats is not None:
            weights, count = dequantized(weights, found.floats, dtype)
        tensors = weights.own
        if found.integers:
            self._checkpoint = QuantizedCheckpoint(
                self._config.model, weights, found.integers, dtype
            )
            tensors = self._checkpoint.tensors
        if not count and (self._checkpoint is None or self._checkpoint.is_empty):
            raise ModelLoadError(
                self._config.model,
                "quantized linear layers are expected, but none is quantized",
            )
        self._tell(found, count, dtype)
        return tensors

    def _tell(self, found: FoundFormat, floats: int, dtype: torch.dtype) -> None:
        """Says in one line what is computed otherwise than the checkpoint says."""
        name, parts = str(dtype).removeprefix("torch."), []
        if floats:
            parts.append(f"{floats} weights in 8-bit floats are dequantized to {name}")
        if self._checkpoint is not None and (count := self._checkpoint.num_dequantized):
            parts.append(f"{count} weights of experts are dequantized to {name}")
        if found.has_activations:
            parts.append(f"activations are not quantized, but stay in {name}")
        if parts:
            _log.info("Quantized weights (%s): %s", found.name, "; ".join(parts))

    def fill(
        self, model: PreTrainedModel, *, may_compile: bool, reads_all: bool
    ) -> None:
        if self._checkpoint is not None:
            self._checkpoint.fill(model, may_compile=may_compile, reads_all=reads_all)

    def use_cache_scales(
        self,
        model: PreTrainedModel,
        tensors: Mapping[str, StoredTensor],
        cache_dtype: torch.dtype | None,
    ) -> None:
        use_cache_scales(model, tensors, cache_dtype)

    def quantize(self, model: PreTrainedModel, *, may_compile: bool) -> None:
        if (bits := self._scheme.bits) is not None:
            quantize(self._config.model, model, bits, may_compile=may_compile)
