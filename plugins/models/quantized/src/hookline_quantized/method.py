"""Loads one model with quantized weights."""

from collections.abc import Mapping

import torch
from transformers import PreTrainedModel

from hookline.config import ModelConfig
from hookline_models.quantization import ReadTensor, StoredTensor, StoredWeights
from hookline_quantized import mxfp4
from hookline_quantized.cache_scales import use_cache_scales
from hookline_quantized.reading import QuantizedCheckpoint
from hookline_quantized.replacing import quantize
from hookline_quantized.scheme import Scheme, dtype_for


class Quantization:
    """How the weights of one model are quantized; implements `QuantizationMethod`."""

    def __init__(self, config: ModelConfig, scheme: Scheme) -> None:
        """Reads nothing yet."""
        self._config, self._scheme = config, scheme
        self._checkpoint: QuantizedCheckpoint | None = None

    def activation_dtype(self, dtype: torch.dtype, device: torch.device) -> torch.dtype:
        if self._scheme.bits is None and self._scheme.layout is None:
            return dtype
        return dtype_for(self._config, dtype, device)

    def read(
        self, weights: StoredWeights, dtype: torch.dtype
    ) -> Mapping[str, ReadTensor]:
        """Raises `ValueError` if MXFP4 blocks have no scales."""
        if self._scheme.is_mxfp4:
            return mxfp4.dequantized(weights.own)
        if self._scheme.layout is None:
            return weights.own
        self._checkpoint = QuantizedCheckpoint(
            self._config.model, weights, self._scheme.layout, dtype
        )
        return self._checkpoint.tensors

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
