"""A gated MLP's parts give what the whole layer gives, over the same weights."""

from importlib import import_module

import pytest
import torch
from torch import nn
from torch.nn import functional

from hookline_kernels import KernelError
from hookline_kernels.cpu import vector_gemm
from hookline_kernels.cpu.vector_feed_forward import VectorFeedForward
from hookline_kernels.modules import gated
from hookline_kernels.modules.gated import FastGated, FusedGated
from hookline_kernels.modules.linears import FastLinear
from hookline_kernels.modules.pre_norm import Product
from hookline_kernels.modules.quantized_layer import gated_product
from hookline_kernels.quantized_weight import dequantize, pack
from hookline_lora.kernels.rows import StepRows
from hookline_lora.kernels.site import AdaptedSite
from hookline_lora.kernels.splitting import SplitMlp, split
from hookline_quantized.joining import quantized_linear

HIDDEN, WIDTH = 64, 96
SIDES = [(HIDDEN, WIDTH), (HIDDEN, WIDTH), (WIDTH, HIDDEN)]
"""Inputs and outputs of gate, up and down."""
ROWS = [1, 5, 32, 33, 130]
Weights = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def numbers(*shape: int) -> torch.Tensor:
    source = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=source)


def weights_of(dtype: torch.dtype) -> Weights:
    gate, up, down = (
        numbers(index + 1, outputs, inputs)[index].to(dtype) / inputs**0.5
        for index, (inputs, outputs) in enumerate(SIDES)
    )
    return gate, up, down


def layers_of(weights: Weights) -> tuple[nn.Linear, nn.Linear, nn.Linear]:
    gate, up, down = (
        nn.Linear(each.shape[1], len(each), bias=False, dtype=each.dtype)
        for each in weights
    )
    for layer, weight in zip((gate, up, down), weights, strict=True):
        layer.weight = nn.Parameter(weight, requires_grad=False)
    return gate, up, down


def assert_parts_are_right(product: Product, parts: SplitMlp, weights: Weights) -> None:
    """The first product alone, and all parts together."""
    dtype = weights[0].dtype
    error = 1e-5 if dtype == torch.float32 else 0.02
    for rows in ROWS:
        values, residual = (numbers(each, rows, HIDDEN)[0].to(dtype) for each in (1, 2))
        sides = parts.gate_up(values)
        assert sides.shape == (rows, 2 * WIDTH)
        assert sides.is_contiguous()
        for place, weight in zip(parts.slices, weights, strict=False):
            found = sides[:, torch.from_numpy(place.columns())].double()
            exact = values.double() @ weight.double().T
            assert (found - exact).norm() <= error * exact.norm()
        found = parts.down(parts.gate(sides), residual.clone())
        whole = product(values, residual.clone())
        assert (found.double() - whole.double()).norm() <= error * whole.norm()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_gates_and_ups_are_apart(dtype: torch.dtype) -> None:
    """Of a layer whose activation is a kernel of its own."""
    weights = weights_of(dtype)
    product = FastGated(*layers_of(weights), "silu")

    parts = split(product)

    assert parts.slices[1].offset == WIDTH
    assert_parts_are_right(product, parts, weights)


@pytest.mark.parametrize("by_vectors", [False, True])
def test_fused_kernels_have_one_copy_of_the_weights(
    by_vectors: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On tiles, which tests emulate, and by vectors: 16 gates and 16 ups alternate."""
    weights = weights_of(torch.bfloat16)
    product = FusedGated(*layers_of(weights), "gelu_tanh")
    if by_vectors:
        monkeypatch.setattr(vector_gemm, "uses_tiles", lambda: False)
        layer = VectorFeedForward(*weights, "gelu_tanh")
        monkeypatch.setattr(gated, "_fused", lambda *_: (layer, None))
        product = FusedGated(*layers_of(weights), "gelu_tanh")
    laid: list[torch.Tensor] = []
    for module in ("feed_forward", "panels", "vector_gemm"):
        name = f"hookline_kernels.cpu.{module}.lay_panels"
        monkeypatch.setattr(name, laid.append)

    parts = split(product)

    assert not laid
    assert parts.slices == ((0, WIDTH, 16, 32), (16, WIDTH, 16, 32))
    assert_parts_are_right(product, parts, weights)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_quantized_layers_are_split(dtype: torch.dtype) -> None:
    """Their weights have been joined when the layer was made."""
    packed = [
        pack(
            (20 * numbers(outputs, inputs)).clamp(-127, 127).to(torch.int8),
            torch.full((outputs, 1), 0.005),
            bits=8,
        )
        for inputs, outputs in SIDES
    ]
    gate, up, down = (dequantize(each).to(dtype) for each in packed)
    module = nn.Module()
    for name, weight in zip(("gate_proj", "up_proj", "down_proj"), packed, strict=True):
        layer = quantized_linear(weight, None, dtype, may_compile=True)
        module.add_module(name, layer)
    module.act_fn = nn.SiLU()
    product = gated_product(module)
    assert product is not None

    assert_parts_are_right(product, split(product), (gate, up, down))


def test_products_of_gpus_are_split() -> None:
    """Gates come before ups; the activation here is torch's."""
    pytest.importorskip("triton", reason="Triton is not installed")
    ops = import_module("hookline_kernels.decoder.gpu_layer_ops")
    weights = weights_of(torch.float32)
    product = ops.GpuGated(*layers_of(weights), "gelu_tanh")

    parts = split(product)

    assert parts.slices == ((0, WIDTH, 0, 0), (WIDTH, WIDTH, 0, 0))
    assert_parts_are_right(product, parts, weights)


def test_what_is_no_gated_mlp_is_refused() -> None:
    """With the name of what computes it."""
    product = FastLinear(numbers(32, 32), None)
    with pytest.raises(KernelError, match="FastLinear computes it as a whole"):
        split(product)


def test_adapters_of_gate_and_up_change_the_activation() -> None:
    """The parts around a site's product give what the changed weights give."""
    weights = weights_of(torch.float32)
    parts = split(FastGated(*layers_of(weights), "silu"))
    a, b = numbers(4, HIDDEN) / 8, numbers(WIDTH, 4)
    site = AdaptedSite(HIDDEN, parts.slices, torch.float32, max_loras=1)
    site.set(0, [(a, b), None])
    rows, values = StepRows(3, 1), numbers(3, HIDDEN)
    rows.fill(torch.tensor([0, -1, 0]).numpy())

    sides = parts.gate_up(values)
    site.add(sides, values, rows)
    found = parts.down(parts.gate(sides))

    gate, up, down = weights
    for row, changed in enumerate((gate + b @ a, gate, gate + b @ a)):
        own = values[row]
        expected = (functional.silu(own @ changed.T) * (own @ up.T)) @ down.T
        torch.testing.assert_close(found[row], expected, rtol=1e-4, atol=1e-5)
