"""Quantization methods: a model loaded with the method, and run."""

from typing import cast

from hookline.config import ModelConfig
from hookline_models.quantization import QuantizationContext, QuantizationMethod
from hookline_registry import Failure
from hookline_testing.conformance.subject import Subject


def check(subject: Subject) -> None:
    """Makes the method, and has it quantize a model."""
    import torch  # noqa: PLC0415 - as methods do
    from torch import nn  # noqa: PLC0415

    context = QuantizationContext(name=subject.name, config=ModelConfig(model="demo"))
    made = subject.create(context=context)
    if made is None or not subject.has(made, QuantizationMethod):
        return
    method = cast("QuantizationMethod", made)
    kind = type(made)
    dtype = subject.call(
        "activation_dtype", method.activation_dtype, torch.float32, torch.device("cpu")
    )
    if not isinstance(dtype, Failure) and not isinstance(dtype, torch.dtype):
        subject.fault("activation_dtype returns no torch.dtype", kind)
    model = nn.Sequential(nn.Linear(8, 16, bias=False), nn.Linear(16, 4, bias=False))
    given = torch.randn(3, 8)
    done = subject.call("quantize", method.quantize, model, may_compile=False)
    if isinstance(done, Failure):
        return
    computed = subject.call("a quantized model", model, given)
    if not isinstance(computed, Failure) and computed.shape != (3, 4):
        subject.fault("quantize changes the shape of what a model computes", kind)
    elif not isinstance(computed, Failure) and not computed.isfinite().all():
        subject.fault("a quantized model computes what is not finite", kind)
