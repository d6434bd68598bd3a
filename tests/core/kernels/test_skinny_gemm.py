"""Products of few rows equal exact ones, and do not disturb oneDNN."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch.nn import functional

from hookline_kernels.cpu.linear import can_pack, pack, packed_linear
from hookline_kernels.cpu.panels import OUTPUTS, lay_panels
from hookline_kernels.cpu.skinny_gemm import SkinnyGemm, skinny_gemm_for
from hookline_kernels.modules.linears import FastLinear

ROWS = [*range(1, 34), 47, 64, 100]
SHAPES = [(32, 32), (96, 64), (160, 96), (256, 480)]


def random_values(*shape: int) -> torch.Tensor:
    source = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=source).bfloat16()


needs_packing = pytest.mark.skipif(
    not can_pack(random_values(32, 32)), reason="oneDNN packs no bfloat16 here"
)


def skinny_gemm_of(
    weight: torch.Tensor, bias: torch.Tensor | None = None
) -> SkinnyGemm:
    """Reads oneDNN's packed weight where it has a known layout, else panels."""
    found = skinny_gemm_for(pack(weight), bias) if can_pack(weight) else None
    return found or SkinnyGemm(lay_panels(weight), bias, OUTPUTS)


def in_blocks(weight: torch.Tensor, width: int) -> torch.Tensor:
    """Packs a weight in blocks of outputs like oneDNN."""
    outputs, inputs = weight.shape
    blocks = weight.view(outputs // width, width, inputs // 2, 2).transpose(1, 2)
    plain = blocks.contiguous().view(outputs, inputs)
    return plain.to_mkldnn()


def assert_equal_to_exact(
    product: SkinnyGemm,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    *,
    has_residual: bool,
) -> None:
    outputs, inputs = weight.shape
    for rows in ROWS:
        values = random_values(rows, inputs)
        residual = random_values(rows, outputs) if has_residual else None
        exact = functional.linear(values.double(), weight.double())
        for each in (bias, residual):
            exact = exact if each is None else exact + each.double()

        found = product(values, residual)

        assert found.dtype == torch.bfloat16
        torch.testing.assert_close(found.double(), exact, rtol=2**-8, atol=1e-4)
        assert residual is None or torch.equal(residual, random_values(rows, outputs))


@pytest.mark.parametrize("has_residual", [False, True])
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_products_are_rounded_once(
    shape: tuple[int, int], has_bias: bool, has_residual: bool
) -> None:
    """For one to many rows, with and without bias and residual."""
    weight = random_values(*shape)
    bias = random_values(shape[0]) if has_bias else None

    product = skinny_gemm_of(weight, bias)

    assert_equal_to_exact(product, weight, bias, has_residual=has_residual)


@pytest.mark.parametrize("width", [32, 64])
def test_blocks_of_either_width_are_read(width: int) -> None:
    """oneDNN may choose either."""
    weight, bias = random_values(192, 96), random_values(192)

    product = SkinnyGemm(in_blocks(weight, width), bias, width)

    assert_equal_to_exact(product, weight, bias, has_residual=True)


def test_a_slice_of_rows_is_taken() -> None:
    """Values need not be contiguous."""
    weight, wide = random_values(96, 64), random_values(5, 200)
    product = skinny_gemm_of(weight)

    found = product(wide[:, 7:71])

    assert torch.equal(found, product(wide[:, 7:71].clone()))


@needs_packing
@pytest.mark.parametrize("threads", [1, 3])
def test_products_of_onednn_are_right_afterwards(threads: int) -> None:
    """It caches each thread's tile configuration, which is restored."""
    weight = random_values(512, 512)
    packed, product = pack(weight), skinny_gemm_of(weight)
    many, few = random_values(300, 512), random_values(19, 512)
    before = torch.get_num_threads()

    torch.set_num_threads(threads)
    try:
        expected = packed_linear(many, packed, None)
        for _ in range(3):
            first = product(few)
            found = packed_linear(many, packed, None)
            assert torch.equal(found, expected)
            assert torch.equal(product(few), first)
    finally:
        torch.set_num_threads(before)

    exact = many.double() @ weight.double().T
    torch.testing.assert_close(expected.double(), exact, rtol=2**-8, atol=1e-3)


def test_other_threads_of_the_interpreter_are_not_disturbed() -> None:
    """Each thread has its own tiles and results."""
    weight = random_values(96, 64)
    many, few = random_values(300, 64), random_values(19, 64)
    linear = FastLinear(weight, None)  # by oneDNN where it can pack
    expected = linear(many[None]), skinny_gemm_of(weight)(few)

    def alternate(_: int) -> bool:
        product = skinny_gemm_of(weight)
        return all(
            torch.equal(product(few), expected[1])
            and torch.equal(linear(many[None]), expected[0])
            for _ in range(50)
        )

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(alternate, range(4)))


@needs_packing
@pytest.mark.parametrize("shape", [(48, 64), (64, 48), (33, 64), (64, 7), (16, 32)])
def test_odd_weights_are_left_to_onednn(shape: tuple[int, int]) -> None:
    """Their blocks are padded, which the kernel does not support."""
    assert skinny_gemm_for(pack(random_values(*shape)), None) is None


@needs_packing
def test_another_layout_is_found_out() -> None:
    """A weight of the right size with another order of numbers is refused."""
    plain = random_values(96, 64).to_mkldnn()

    assert skinny_gemm_for(plain, None) is None
