"""Products with quantized weights equal those with the expanded weights."""

import pytest
import torch
from torch.nn import functional

from hookline_kernels.cpu.finishing import AS_THEY_ARE
from hookline_kernels.cpu.quantized_linear import QuantizedGatedMlp, QuantizedProduct
from hookline_kernels.cpu.quantized_vectors import vectors_kernel
from hookline_kernels.cpu.vector_panels import EXPANDED, PAIRS, has_pairs
from hookline_kernels.quantized_weight import (
    QuantizedWeight,
    alternating,
    dequantize,
    joined,
    pack,
)

ROWS = (1, 2, 3, 7, 20, 33, 70)
TOLERANCES = {torch.bfloat16: 0.006, torch.float32: 1e-5}
KINDS = [
    (4, torch.bfloat16, True),
    (8, torch.float32, False),
    *(
        pytest.param(bits, dtype, has_shifts, marks=pytest.mark.exhaustive)
        for bits in (4, 8)
        for dtype in (torch.bfloat16, torch.float32)
        for has_shifts in (False, True)
        if (bits, dtype, has_shifts)
        not in {(4, torch.bfloat16, True), (8, torch.float32, False)}
    ),
]


def random_weight(
    outputs: int,
    inputs: int,
    bits: int,
    *,
    group: int = 32,
    has_shifts: bool = False,
    order: torch.Tensor | None = None,
) -> QuantizedWeight:
    source = torch.Generator().manual_seed(outputs + inputs + bits)
    top = 1 << (bits - 1)
    shape = (outputs, inputs // group)
    codes = torch.randint(-top, top, (outputs, inputs), generator=source)
    scales = (torch.rand(shape, generator=source) + 0.5) / top
    shifts = torch.randn(shape, generator=source) / 8 if has_shifts else None
    return pack(codes.to(torch.int8), scales, shifts, bits=bits, order=order)


def random_values(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    source = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=source).to(dtype)


def in_blocks(values: torch.Tensor) -> torch.Tensor:
    """Blocks of 32 rows as norms write them; the last one has the last 32 rows."""
    count = -(-len(values) // 32)
    starts = [min(32 * block, len(values) - 32) for block in range(count)]
    blocks = torch.stack([values[start : start + 32] for start in starts])
    parts: torch.Tensor = blocks.unflatten(2, (-1, 32))
    return parts.transpose(1, 2).contiguous()


def assert_close(found: torch.Tensor, expected: torch.Tensor) -> None:
    error = (found.double() - expected).norm() / expected.norm()
    assert error <= TOLERANCES[found.dtype]


@pytest.mark.parametrize(("bits", "dtype", "has_shifts"), KINDS)
@pytest.mark.parametrize("group", [32, 160])
def test_product(
    bits: int, dtype: torch.dtype, group: int, *, has_shifts: bool
) -> None:
    """With bias and residual, for few and many rows."""
    weight = random_weight(96, 160, bits, group=group, has_shifts=has_shifts)
    bias = random_values(96, dtype=dtype)
    product = QuantizedProduct(weight, bias, dtype)

    for rows in ROWS:
        values = random_values(rows, 160, dtype=dtype)
        residual = random_values(rows, 96, dtype=dtype)
        plain = functional.linear(values.double(), dequantize(weight).double())
        expected = plain + bias + residual

        assert_close(product(values, residual), expected)
        if product.least_in_blocks is not None and rows >= product.least_in_blocks:
            found = product.of_blocks(in_blocks(values), rows, residual)
            assert_close(found, expected)


@pytest.mark.parametrize(("bits", "dtype", "has_shifts"), KINDS)
def test_gated_mlp(bits: int, dtype: torch.dtype, *, has_shifts: bool) -> None:
    """Gate and up projection are one product, whose sums become activations."""
    gate, up = (
        random_weight(64, inputs, bits, group=inputs, has_shifts=has_shifts)
        for inputs in (96, 96)
    )
    down = random_weight(96, 64, bits, has_shifts=has_shifts)
    mlp = QuantizedGatedMlp(
        gate, up, QuantizedProduct(down, None, dtype), dtype, "silu"
    )

    for rows in (1, 5, 40):
        values = random_values(rows, 96, dtype=dtype)
        wide = values.double()
        sides = (wide @ dequantize(each).double().T for each in (gate, up))
        gates, ups = sides
        expected = functional.silu(gates) * ups @ dequantize(down).double().T

        assert_close(mlp(values), expected)


@pytest.mark.parametrize("form", [EXPANDED, PAIRS])
def test_rows_by_vectors(form: int) -> None:
    """Several parts of several panels, and more rows than a thread copies at once."""
    if form == PAIRS and not has_pairs():
        pytest.skip("this CPU has no products of pairs")
    dtype = torch.bfloat16
    weight = random_weight(160, 608, 4, has_shifts=True)
    bias = random_values(160, dtype=dtype)
    product = QuantizedProduct(weight, bias, dtype)
    kernel = vectors_kernel(4, has_shifts=True, kind=AS_THEY_ARE, form=form)

    for rows in (5, 13, 40, 130):
        values = random_values(rows, 608, dtype=dtype)
        residual = random_values(rows, 160, dtype=dtype)
        found = torch.empty_like(residual)
        product._run(kernel, rows, found, values, residual)

        plain = functional.linear(values.double(), dequantize(weight).double())
        assert_close(found, plain + bias + residual)


def test_columns_in_another_order() -> None:
    """Groups of inputs that are not neighbours."""
    order = torch.randperm(96, generator=torch.Generator().manual_seed(1))
    weight = random_weight(32, 96, 8, order=order)
    values = random_values(3, 96, dtype=torch.float32)

    found = QuantizedProduct(weight, None, torch.float32)(values)

    ordered = random_weight(32, 96, 8)
    expected = values[:, order].double() @ dequantize(ordered).double().T
    assert_close(found, expected)
    assert_close(values @ dequantize(weight).T, expected)


@pytest.mark.parametrize("bits", [4, 8])
def test_codes_are_packed_without_loss(bits: int) -> None:
    """Expanded weights are code · scale; joined ones lie one after another."""
    top = 1 << (bits - 1)
    codes = torch.arange(-top, top).repeat(64 * 64 // top)[: 64 * 64].view(64, 64)
    scales = torch.arange(1.0, 129.0).view(64, 2)
    weight = pack(codes.to(torch.int8), scales, bits=bits)

    expected = codes * scales.repeat_interleave(32, 1)
    assert torch.equal(dequantize(weight), expected)
    assert weight.nbytes == 64 * 64 * bits // 8 + scales.nbytes
    assert torch.equal(dequantize(joined([weight] * 2)), expected.repeat(2, 1))
    halves = expected.view(4, 1, 16, 64).expand(4, 2, 16, 64).reshape(128, 64)
    assert torch.equal(dequantize(alternating(weight, weight)), halves)
