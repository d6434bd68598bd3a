"""The gated MLP on tiles equals its reference, and does not disturb oneDNN."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from hookline_kernels import KernelError
from hookline_kernels.cpu.feed_forward import FeedForward
from hookline_kernels.cpu.gated import GATES
from hookline_kernels.cpu.panels import lay_panels
from hookline_kernels.layers import gated_reference
from hookline_kernels.modules.linears import FastLinear

ROWS = [1, 31, 32, 33, 47, 63, 64, 65, 200, 513, 545]
SHAPES = [(32, 32), (64, 96), (96, 544), (1056, 64)]
"""Hidden size and width; slices of one length and of several, halves of blocks."""

Weights = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def random_values(*shape: int) -> torch.Tensor:
    source = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=source).bfloat16()


def weights_of(hidden: int, width: int) -> Weights:
    """Gate, up and down."""
    gate, up, down = random_values(3, width, hidden).float() / hidden**0.5
    return gate.bfloat16(), up.bfloat16(), down.view(hidden, width).bfloat16()


def exact(values: torch.Tensor, weights: Weights, activation: str) -> torch.Tensor:
    """The result in float64."""
    gate, up, down = (each.double() for each in weights)
    sides = torch.cat((values.double() @ gate.T, values.double() @ up.T), 1)
    return gated_reference(sides, activation) @ down.T


@pytest.mark.parametrize("has_residual", [False, True])
@pytest.mark.parametrize("activation", GATES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_rows_equal_the_reference(
    shape: tuple[int, int], activation: str, has_residual: bool
) -> None:
    """Each row is right, and inputs stay unchanged."""
    hidden, width = shape
    weights = weights_of(hidden, width)
    layer = FeedForward(*weights, activation)
    for rows in ROWS:
        values = random_values(rows, hidden)
        residual = random_values(hidden, rows).T.contiguous() if has_residual else None
        expected = exact(values, weights, activation)
        expected += 0 if residual is None else residual.double()

        found = layer(values, residual)

        assert (found.dtype, found.shape) == (torch.bfloat16, (rows, hidden))
        worst = (found.double() - expected).abs().amax(1)
        assert (worst <= 0.012 * expected.abs().amax(1)).all(), (rows, worst)
        assert torch.equal(values, random_values(rows, hidden))
        assert residual is None or torch.equal(residual.T, random_values(hidden, rows))


@pytest.mark.parametrize("threads", [1, 3])
def test_any_number_of_threads_gives_the_same(threads: int) -> None:
    """And oneDNN, which configures tiles differently, is right afterwards."""
    layer = FeedForward(*weights_of(96, 544), "silu")
    linear, many = FastLinear(random_values(96, 96), None), random_values(700, 96)
    expected, plain = layer(many), linear(many)
    before = torch.get_num_threads()

    torch.set_num_threads(threads)
    try:
        for _ in range(3):
            assert torch.equal(layer(many), expected)
            assert torch.equal(linear(many), plain)
    finally:
        torch.set_num_threads(before)


def test_other_threads_of_the_interpreter_are_not_disturbed() -> None:
    """Each thread has its own tiles and sums."""
    weights, values = weights_of(64, 96), random_values(300, 64)
    expected = FeedForward(*weights, "silu")(values)

    def repeat(_: int) -> bool:
        layer = FeedForward(*weights, "silu")
        return all(torch.equal(layer(values), expected) for _ in range(50))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(repeat, range(4)))


def test_a_slice_of_rows_is_taken() -> None:
    """Values need not be contiguous."""
    layer, wide = FeedForward(*weights_of(64, 96), "silu"), random_values(70, 200)

    found = layer(wide[:, 7:71])

    assert torch.equal(found, layer(wide[:, 7:71].contiguous()))


def test_nan_stays_in_its_row() -> None:
    """NaN spreads to no other row, even where rows are computed twice."""
    layer = FeedForward(*weights_of(64, 96), "silu")
    values = random_values(77, 64)
    expected = layer(values)
    values[40, 3] = torch.nan

    found = layer(values)

    assert found[40].isnan().all()
    others = [row for row in range(77) if row != 40]
    assert torch.equal(found[others], expected[others])


@pytest.mark.parametrize("shape", [(48, 64), (64, 48), (33, 64)])
def test_other_shapes_are_refused(shape: tuple[int, int]) -> None:
    """Like on CPUs without a matrix unit."""
    with pytest.raises(KernelError):
        FeedForward(*weights_of(*shape), "silu")


@pytest.mark.parametrize(
    ("dtype", "activation"), [(torch.float32, "silu"), (torch.bfloat16, "relu")]
)
def test_other_numbers_and_functions_are_refused(
    dtype: torch.dtype, activation: str
) -> None:
    """The caller falls back."""
    gate, up, down = (each.to(dtype) for each in weights_of(64, 96))
    with pytest.raises(KernelError):
        FeedForward(gate, up, down, activation)


def test_panels_hold_pairs_of_inputs() -> None:
    """[out ÷ 32, in ÷ 2, 32, 2], in the shape of the weight."""
    weight = torch.arange(64 * 96).view(64, 96).bfloat16()

    panels = lay_panels(weight)

    assert panels.shape == weight.shape
    lying = panels.view(2, 48, 32, 2)
    assert torch.equal(lying[1, 7, 5], weight[32 + 5, 14:16])
