"""Models whose linear layers have weights in 8 or 4 bits.

Layers are quantized while a model is loaded (`rounding.py`), or are read from
checkpoints in the formats of GPTQ, AWQ and compressed-tensors. Kernels read packed
weights; 8-bit floats, MXFP4 and experts are dequantized; embeddings, norms and biases
stay as they are.

Importing it is cheap: torch is imported when a method is made.
"""

from hookline.hookspecs import hookimpl
from hookline_models.quantization import QuantizationContext, QuantizationMethod

__all__ = ["create_quantization_method"]


@hookimpl
def create_quantization_method(context: QuantizationContext) -> QuantizationMethod:
    """Raises `ModelLoadError` if a checkpoint has a variant that is not read."""
    from hookline_quantized.method import Quantization  # noqa: PLC0415
    from hookline_quantized.scheme import scheme_of  # noqa: PLC0415

    return Quantization(context.config, scheme_of(context.config, context.entries))
