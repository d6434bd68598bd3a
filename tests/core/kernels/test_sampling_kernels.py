"""Compiled sampling equals the torch reference, and draws what it should."""

import math
from collections.abc import Callable

import pytest
import torch

from hookline_kernels.drawing import NO_TOKEN
from hookline_kernels.sampling import (
    REFERENCE_SAMPLING,
    ChosenSampling,
    choose_sampling,
    draw_reference,
)

DTYPES = [torch.bfloat16, torch.float32]
SHAPES = [(1, 1), (3, 7), (2, 511), (2, 512), (5, 513), (64, 8192)]
INFINITY = math.inf


@pytest.fixture(scope="module", params=DTYPES, ids=str)
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    chosen: torch.dtype = request.param
    return chosen


@pytest.fixture(scope="module")
def chosen(dtype: torch.dtype) -> ChosenSampling:
    return choose_sampling(dtype)


def some_logits(shape: tuple[int, int], dtype: torch.dtype) -> torch.Tensor:
    source = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=source).mul_(4).to(dtype)


def draw(chosen: ChosenSampling, logits: torch.Tensor, point: float) -> list[int]:
    points = torch.full((len(logits),), point, dtype=torch.float64)
    return chosen.draw(logits, torch.ones(len(logits)), points).tolist()


def test_kernels_are_chosen(chosen: ChosenSampling) -> None:
    """With a compiler, there is no fallback."""
    assert (chosen.name, chosen.reason) == ("compiled", "")


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_argmax_is_the_first_of_the_largest(
    chosen: ChosenSampling, dtype: torch.dtype, shape: tuple[int, int]
) -> None:
    """Also with many ties, which bfloat16 has, and with strided rows."""
    logits = some_logits(shape, dtype)
    spread = logits.repeat(1, 2)[:, ::2]

    assert torch.equal(chosen.argmax(logits), logits.float().argmax(-1))
    assert torch.equal(chosen.argmax(spread), spread.float().argmax(-1))


@pytest.mark.parametrize(
    ("row", "best"),
    [
        ([-3.0, -1.0, -1.0, -2.0], 1),
        ([-0.0, 0.0, -1.0], 0),
        ([-1.0, -0.0, 0.0], 1),
        ([-INFINITY, -1e30], 1),
        ([3e38, -3e38], 0),
    ],
)
def test_argmax_of_special_numbers(
    chosen: ChosenSampling, dtype: torch.dtype, row: list[float], best: int
) -> None:
    """Signs and −∞ are ordered as in torch."""
    logits = torch.tensor([row], dtype=dtype)

    assert chosen.argmax(logits).tolist() == [best]


BROKEN = [
    [-INFINITY, -INFINITY],
    [1.0, INFINITY],
    [math.nan, 2.0],
    [1.0, -math.nan],
    [-INFINITY, -math.nan],
    [math.nan, INFINITY],
]


@pytest.mark.parametrize("width", [2, 513, 1500])
@pytest.mark.parametrize("which", ["chosen", "reference"])
def test_rows_without_a_distribution_have_no_token(
    chosen: ChosenSampling, dtype: torch.dtype, width: int, which: str
) -> None:
    """However they are sampled, wherever it is; the rows between them have theirs."""
    sampling = chosen if which == "chosen" else REFERENCE_SAMPLING
    logits = some_logits((2 * len(BROKEN), width), dtype)
    clean = logits.clone()
    for index, row in enumerate(BROKEN):
        logits[2 * index] = -INFINITY if row == [-INFINITY] * 2 else 0.0
        logits[2 * index, [0, width - 1]] = torch.tensor(row, dtype=dtype)
    ones, count = torch.ones(len(logits)), len(logits)
    points = torch.full((count,), 0.7, dtype=torch.float64)
    filters = {
        "top_k": torch.full((count,), min(5, width)),
        "top_p": torch.full((count,), 0.9),
        "min_p": torch.zeros(count),
    }
    draws: list[Callable[[torch.Tensor], torch.Tensor]] = [
        sampling.argmax,
        lambda rows: sampling.draw(rows, ones, points),
        lambda rows: sampling.draw_filtered(rows, ones, points, **filters),
    ]

    for each in draws:
        found, wanted = each(logits), each(clean)
        assert found[::2].tolist() == [NO_TOKEN] * len(BROKEN)
        assert torch.equal(found[1::2], wanted[1::2])
        assert (wanted >= 0).all()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_draws_equal_the_reference(
    chosen: ChosenSampling, dtype: torch.dtype, shape: tuple[int, int]
) -> None:
    """Except for points on the rounded border of two tokens."""
    logits = some_logits(shape, dtype).repeat(20, 1)
    source = torch.Generator().manual_seed(1)
    points = torch.rand(len(logits), generator=source, dtype=torch.float64)
    temperatures = torch.rand(len(logits), generator=source).mul_(2).add_(0.1)

    found = chosen.draw(logits, temperatures, points)

    same = found == draw_reference(logits, temperatures, points)
    assert same.double().mean() > 0.995


def test_draws_are_as_likely_as_their_tokens(
    chosen: ChosenSampling, dtype: torch.dtype
) -> None:
    """Evenly spaced points draw each token as often as it is likely."""
    logits = some_logits((1, 600), dtype)
    count = 20_000
    points = torch.arange(count, dtype=torch.float64).add_(0.5).div_(count)

    found = chosen.draw(logits.expand(count, -1), torch.full((count,), 1.5), points)

    shares = found.bincount(minlength=600).double() / count
    expected = (logits[0].double() / 1.5).softmax(-1)
    assert (shares - expected).abs().max() < 1.5 / count


def test_impossible_tokens_are_never_drawn(
    chosen: ChosenSampling, dtype: torch.dtype
) -> None:
    """Not at the ends either, nor where whole spans are impossible."""
    logits = torch.full((1, 2000), -INFINITY, dtype=dtype)
    logits[0, [700, 1200]] = torch.tensor([1.0, 1.0], dtype=dtype)

    assert draw(chosen, logits, 0.0) == [700]
    assert draw(chosen, logits, 0.4999) == [700]
    assert draw(chosen, logits, 0.5001) == [1200]
    assert draw(chosen, logits, math.nextafter(1.0, 0.0)) == [1200]


@pytest.mark.parametrize("temperature", [1e-38, 1e-3, 1e3, 3e38])
def test_absurd_temperatures_draw_a_token(
    chosen: ChosenSampling, dtype: torch.dtype, temperature: float
) -> None:
    """The lowest is greedy, the highest uniform."""
    logits = some_logits((1, 1024), dtype)
    logits[0, 77] = 50.0
    points = torch.tensor([0.25], dtype=torch.float64)

    (token,) = chosen.draw(logits, torch.tensor([temperature]), points).tolist()

    assert token == 77 if temperature < 1 else abs(token - 256) < 24


def test_other_dtypes_are_read_as_float32(chosen: ChosenSampling) -> None:
    """float16 has no kernel."""
    logits = some_logits((4, 300), torch.float32).half()

    assert torch.equal(chosen.argmax(logits), logits.argmax(-1))
