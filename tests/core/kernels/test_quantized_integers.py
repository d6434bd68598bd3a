"""Products of integers equal those of the rounded activations and weights."""

import dataclasses

import pytest
import torch
from torch.nn import functional

from hookline_kernels.cpu.finishing import AS_THEY_ARE
from hookline_kernels.cpu.integer_rows import VECTORS_HEIGHT
from hookline_kernels.cpu.panels import uses_tiles
from hookline_kernels.cpu.quantized_integers import integers_kernel
from hookline_kernels.cpu.quantized_linear import (
    QuantizedGatedMlp,
    QuantizedProduct,
    run,
)
from hookline_kernels.quantized_weight import (
    BYTE_BITS,
    QuantizedWeight,
    activation_codes,
    alternating,
    are_alike,
    as_integers,
    dequantize,
    joined,
    pack,
)

ROWS = (1, 2, 3, VECTORS_HEIGHT, VECTORS_HEIGHT + 1, 33, 70)
TOLERANCES = {torch.bfloat16: 0.005, torch.float32: 2e-6}
WAYS = [False, True] if uses_tiles() else [False]
KINDS = [
    (8, 192, torch.float32, False),
    (4, 32, torch.bfloat16, True),
    *(
        pytest.param(bits, group, torch.float32, has_shifts, marks=pytest.mark.slow)
        for bits, group, has_shifts in (
            *((8, 32, False), (8, 64, True), (4, 64, False), (4, 384, True)),
        )
    ),
]
"""Bits, inputs of a group of the weight, dtype, and whether the weight has shifts."""


def random_weight(
    outputs: int,
    inputs: int,
    bits: int,
    group: int,
    *,
    has_shifts: bool = False,
    order: torch.Tensor | None = None,
) -> QuantizedWeight:
    source = torch.Generator().manual_seed(outputs + inputs + bits)
    top = 1 << (bits - 1)
    shape = (outputs, inputs // group)
    codes = torch.randint(-top, top, (outputs, inputs), generator=source)
    codes[0] = -top  # the sums that are largest in 16 bits
    scales = (torch.rand(shape, generator=source) + 0.5) / top
    shifts = torch.randn(shape, generator=source) / 8 if has_shifts else None
    return pack(
        codes.to(torch.int8),
        scales,
        shifts,
        bits=bits,
        order=order,
        activation_bits=BYTE_BITS,
    )


def random_values(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    source = torch.Generator().manual_seed(sum(shape))
    values = torch.randn(shape, generator=source)
    values[0] = 1.0  # all codes are the largest one
    return values.to(dtype)


def expected_product(weight: QuantizedWeight, values: torch.Tensor) -> torch.Tensor:
    codes, scales = activation_codes(values, weight.activation_group)
    rounded = (codes.double() * scales.double()).flatten(-2)
    return rounded @ dequantize(weight).double().T


def assert_close(found: torch.Tensor, expected: torch.Tensor) -> None:
    error = (found.double() - expected).norm() / expected.norm()
    assert error <= TOLERANCES[found.dtype]


@pytest.mark.parametrize(("bits", "group", "dtype", "has_shifts"), KINDS)
def test_product(
    bits: int, group: int, dtype: torch.dtype, *, has_shifts: bool
) -> None:
    """With bias and residual, for few and many rows."""
    inputs = 384
    weight = random_weight(96, inputs, bits, group, has_shifts=has_shifts)
    bias = random_values(96, dtype=dtype)
    product = QuantizedProduct(weight, bias, dtype)

    for rows in ROWS:
        values = random_values(rows, inputs, dtype=dtype)
        residual = random_values(rows, 96, dtype=dtype)
        expected = expected_product(weight, values) + bias + residual

        assert_close(product(values, residual), expected)
    assert product.least_in_blocks is None


@pytest.mark.parametrize("bits", [4, 8])
def test_a_token_does_not_depend_on_the_batch(bits: int) -> None:
    """However many rows there are, each has the same bits: by vectors and by tiles."""
    weight = random_weight(64, 256, bits, 128)
    product = QuantizedProduct(weight, None, torch.float32)
    values = random_values(45, 256)
    alone = torch.cat([product(row[None]) for row in values])

    for in_tiles in WAYS:
        kernel = integers_kernel(
            bits,
            128,
            4,
            has_shifts=False,
            kind=AS_THEY_ARE,
            in_tiles=in_tiles,
        )
        for rows in (1, 5, 17, 45):
            found = torch.empty(rows, 64)
            run(weight, kernel, product._numbers, rows, found, values[:rows], None)
            assert torch.equal(found, alone[:rows])


def test_wide_inputs_are_multiplied_in_parts() -> None:
    """The rows of several blocks do not fit a thread's memory at full width."""
    weight = random_weight(160, 9728, 4, 128)
    values = random_values(130, 9728)

    found = QuantizedProduct(weight, None, torch.float32)(values)

    assert_close(found, expected_product(weight, values))


def test_gated_mlp() -> None:
    """Gate and up projection are one product, whose sums become activations."""
    dtype = torch.bfloat16
    gate, up = (random_weight(64, 96, 8, 96) for _ in range(2))
    down = random_weight(96, 64, 8, 64)
    mlp = QuantizedGatedMlp(
        gate, up, QuantizedProduct(down, None, dtype), dtype, "silu"
    )

    for rows in (1, 5, 40):
        values = random_values(rows, 96, dtype=dtype)
        gates, ups = (expected_product(each, values) for each in (gate, up))
        between = (functional.silu(gates) * ups).to(dtype)

        error = (mlp(values).double() - expected_product(down, between)).norm()
        assert error <= 0.01 * expected_product(down, between).norm()


def test_numbers_that_are_not_finite_stay_in_their_row() -> None:
    """They are not rounded away, and other tokens do not see them."""
    weight = random_weight(32, 256, 8, 256)
    product = QuantizedProduct(weight, None, torch.float32)
    values = random_values(4, 256)
    clean = product(values)
    values[1, 5], values[2, 130] = torch.nan, -torch.inf

    found = product(values)

    assert not found[1:3].isfinite().any()
    assert torch.equal(found[[0, 3]], clean[[0, 3]])


def test_small_numbers_become_zero() -> None:
    """A group without a scale that has an inverse adds nothing."""
    weight = random_weight(32, 64, 4, 64)
    values = torch.stack([torch.zeros(64), torch.full((64,), 1e-38)])

    found = QuantizedProduct(weight, None, torch.float32)(values)

    assert torch.equal(found, torch.zeros(2, 32))
    assert torch.equal(as_integers(values, 64), torch.zeros(2, 64))


def test_columns_in_another_order() -> None:
    """Groups of inputs that are not neighbours, of the weight and of the rows."""
    order = torch.randperm(96, generator=torch.Generator().manual_seed(1))
    weight = random_weight(32, 96, 8, 32, order=order)
    ordered = random_weight(32, 96, 8, 32)
    values = random_values(3, 96)

    found = QuantizedProduct(weight, None, torch.float32)(values)

    assert_close(found, expected_product(ordered, values[:, order]))


@pytest.mark.parametrize("bits", [4, 8])
def test_codes_are_packed_without_loss(bits: int) -> None:
    """Expanded weights are code · scale; joined ones lie one after another."""
    top = 1 << (bits - 1)
    codes = torch.arange(-top, top).repeat(64 * 64 // top)[: 64 * 64].view(64, 64)
    scales = torch.arange(1.0, 129.0).view(64, 2)
    weight = pack(codes.to(torch.int8), scales, bits=bits, activation_bits=BYTE_BITS)
    other = pack(codes.to(torch.int8), scales, bits=bits)

    expected = codes * scales.repeat_interleave(32, 1)
    assert torch.equal(dequantize(weight), expected)
    assert weight.in_features == 64
    assert torch.equal(dequantize(joined([weight] * 2)), expected.repeat(2, 1))
    halves = expected.view(4, 1, 16, 64).expand(4, 2, 16, 64).reshape(128, 64)
    assert torch.equal(dequantize(alternating(weight, weight)), halves)
    assert not are_alike([weight, other])
    assert are_alike([weight, dataclasses.replace(weight)])
