"""Sampling on the GPU equals the torch reference, and draws what it should."""

import math

import pytest
import torch

pytest.importorskip("triton", reason="Triton is not installed")

from hookline_kernels.drawing import NO_TOKEN
from hookline_kernels.gpu import sampling, thresholds
from hookline_kernels.gpu.reference import draw_filtered_reference, kept_reference
from hookline_kernels.gpu.sampling import argmax, draw, draw_filtered
from hookline_kernels.sampling import argmax_reference, draw_reference
from hookline_testing.essential import essential

DTYPES = [torch.float32, torch.bfloat16]
INFINITY = math.inf
PART = 64


@pytest.fixture
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs take so few tokens that short rows have several parts."""
    monkeypatch.setattr(sampling, "_PART_SIZE", PART)
    monkeypatch.setattr(thresholds, "_LIST_TILE", 16)


def some_logits(
    shape: tuple[int, int], dtype: torch.dtype, device: torch.device
) -> torch.Tensor:
    source = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=source).mul_(4).to(dtype).to(device)


def some_points(count: int, device: torch.device) -> torch.Tensor:
    source = torch.Generator().manual_seed(count)
    return torch.rand(count, generator=source, dtype=torch.float64).to(device)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (2, 4096), (5, 4097), (3, 9000)])
def test_argmax_is_the_first_of_the_largest(
    shape: tuple[int, int], dtype: torch.dtype, device: torch.device
) -> None:
    """Also with many ties, which bfloat16 has, and with strided rows."""
    logits = some_logits(shape, dtype, device)
    spread = logits.repeat(1, 2)[:, ::2]

    assert torch.equal(argmax(logits), argmax_reference(logits))
    assert torch.equal(argmax(spread), argmax_reference(spread))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("row", "best"),
    [
        ([-3.0, -1.0, -1.0, -2.0], 1),
        ([-0.0, 0.0, -1.0], 0),
        ([-INFINITY, -INFINITY], NO_TOKEN),
        ([-INFINITY, -1e30], 1),
        ([1.0, INFINITY, INFINITY], NO_TOKEN),
        ([1.0, math.nan, 2.0], NO_TOKEN),
        ([1.0, -math.nan, 2.0], NO_TOKEN),
    ],
)
def test_argmax_of_special_numbers(
    row: list[float], best: int, dtype: torch.dtype, device: torch.device
) -> None:
    """Signs and −∞ are ordered as in torch; broken rows have no token."""
    logits = torch.tensor([row], dtype=dtype, device=device)
    ones = torch.ones(1, device=device)
    points = torch.zeros(1, dtype=torch.float64, device=device)

    assert argmax(logits).tolist() == [best]
    drawn = [
        draw(logits, ones, points),
        draw_filtered(
            logits,
            ones,
            points,
            top_k=torch.ones(1, dtype=torch.int64, device=device),
            top_p=ones,
            min_p=0 * ones,
        ),
    ]
    assert all((each[0] == NO_TOKEN) == (best == NO_TOKEN) for each in drawn)


@pytest.mark.parametrize("dtype", essential(DTYPES, torch.bfloat16), ids=str)
@pytest.mark.parametrize(
    "shape",
    [
        pytest.param((1, 1), marks=pytest.mark.slow),
        (3, 7),
        (2, 4097),
        pytest.param((1, 9000), marks=pytest.mark.slow),
    ],
)
def test_draws_equal_the_reference(
    shape: tuple[int, int], dtype: torch.dtype, device: torch.device
) -> None:
    """Except for points on the rounded border of two tokens."""
    logits = some_logits(shape, dtype, device).repeat(20, 1)
    points = some_points(len(logits), device)
    temperatures = points.flip(0).float().mul(2).add(0.1)

    found = draw(logits, temperatures, points)

    same = found == draw_reference(logits, temperatures, points)
    assert int((~same).sum()) <= 1


def test_impossible_tokens_are_never_drawn(device: torch.device) -> None:
    """Not at the ends either, nor where whole tiles are impossible."""
    logits = torch.full((1, 9000), -INFINITY, device=device)
    logits[0, [4500, 4700]] = 1.0
    points = torch.tensor([0.0, 0.49, 0.51, 1 - 2.0**-53], dtype=torch.float64)

    found = draw(logits.repeat(4, 1), torch.ones(4).to(device), points.to(device))

    assert found.tolist() == [4500, 4500, 4700, 4700]


@pytest.mark.parametrize("dtype", essential(DTYPES, torch.bfloat16), ids=str)
@pytest.mark.parametrize(
    ("top_k", "top_p", "min_p"),
    essential(
        [
            (1, 1.0, 0.0),
            (5, 1.0, 0.0),
            (300, 1.0, 0.0),
            (300, 0.9, 0.0),
            (300, 1e-6, 0.0),
            (300, 1.0, 0.3),
            (40, 0.5, 0.0),
            (7, 0.999, 0.01),
        ],
        (5, 1.0, 0.0),
        (300, 0.9, 0.0),
        (300, 1.0, 0.3),
        (7, 0.999, 0.01),
    ),
)
def test_filtered_draws_equal_the_reference(
    top_k: int, top_p: float, min_p: float, dtype: torch.dtype, device: torch.device
) -> None:
    """Each filter alone and all together, with ties at the borders in bfloat16."""
    logits = some_logits((4, 300), dtype, device)
    logits[::3, 100:] = -INFINITY
    count = len(logits)
    points = some_points(count, device)
    temperatures = points.flip(0).float().mul(2).add(0.3)
    filters = {
        "top_k": torch.full((count,), top_k, device=device),
        "top_p": torch.full((count,), top_p, device=device),
        "min_p": torch.full((count,), min_p, device=device),
    }

    found = draw_filtered(logits, temperatures, points, **filters)

    wanted = draw_filtered_reference(logits, temperatures, points, **filters)
    assert int((found != wanted).sum()) <= 1


@pytest.mark.exhaustive
def test_rows_have_separate_filters(device: torch.device) -> None:
    """And equally likely tokens are kept or dropped together."""
    logits = torch.tensor([3.0, 1.0, 2.0, 2.0, 1.0, 0.0], device=device).log()
    count = 9
    points = torch.arange(count, dtype=torch.float64).add(0.5).div(count).to(device)
    kept = {
        (1, 1.0, 0.0): {0},
        (2, 1.0, 0.0): {0, 2, 3},
        (6, 1.0, 0.0): {0, 1, 2, 3, 4},
        (6, 0.3, 0.0): {0},
        (6, 0.4, 0.0): {0, 2, 3},
        (2, 0.59, 0.0): {0},
        (2, 0.61, 0.0): {0, 2, 3},
        (6, 1.0, 0.5): {0, 2, 3},
        (6, 0.4, 0.9): {0},
    }
    rows = [row for row in kept for _ in range(count)]

    found = draw_filtered(
        logits.repeat(len(rows), 1),
        torch.ones(len(rows), device=device),
        points.repeat(len(kept)),
        top_k=torch.tensor([row[0] for row in rows], device=device),
        top_p=torch.tensor([row[1] for row in rows], device=device),
        min_p=torch.tensor([row[2] for row in rows], device=device),
    )

    drawn = [set(part.tolist()) for part in found.split(count)]
    assert drawn == list(kept.values())


def rows_of_many_kinds(vocab_size: int) -> torch.Tensor:
    """Plain rows, wide ones, narrow ones, ties in several parts, and almost nothing."""
    plain = some_logits((3, vocab_size), torch.float32, torch.device("cpu"))
    plain[1] *= 100
    plain[2] *= 1e-4
    equal = torch.zeros(vocab_size)
    ties = torch.zeros(vocab_size)
    ties[:: PART - 1] = 2.5
    one, few, none = torch.full((3, vocab_size), -INFINITY)
    one[-5] = 3.0
    few[PART - 2 : PART + 2] = torch.tensor([0.5, 1.0, 1.0, -2.0])
    few[-1] = 1.0
    return torch.stack([*plain, equal, ties, one, few, none])


@pytest.mark.usefixtures("_small_parts")
@pytest.mark.parametrize("vocab_size", [PART + 2, 3 * PART, 5 * PART + 9])
def test_argmax_of_several_parts(vocab_size: int, device: torch.device) -> None:
    """The first of the largest, also if they are in several parts; as in torch."""
    logits = rows_of_many_kinds(vocab_size)
    logits[2, PART // 2 :: PART // 2] = math.nan

    assert torch.equal(argmax(logits.to(device)).cpu(), argmax_reference(logits))


@pytest.mark.usefixtures("_small_parts")
@pytest.mark.parametrize(
    "dtype", essential([*DTYPES, torch.float16], torch.bfloat16), ids=str
)
def test_draws_from_several_parts(dtype: torch.dtype, device: torch.device) -> None:
    """Those of the reference, with the ends of probability, from a ragged last part."""
    logits = rows_of_many_kinds(3 * PART + 9)[:-1].to(dtype).to(device).repeat(6, 1)
    points = some_points(len(logits), device)
    points[:7], points[7:14] = 0.0, 1 - 2.0**-53
    temperatures = torch.ones(len(logits), device=device)

    found = draw(logits, temperatures, points)

    wanted = draw_reference(logits, temperatures, points)
    assert int((found != wanted).sum()) <= 1
    assert bool((logits.gather(1, found[:, None]) > -INFINITY).all())


FILTERS = [
    (1, 1.0),
    (3, 0.6),
    (PART, 1.0),
    (PART, 0.9),
    (200, 0.999),
    (201, 0.9),
    (201, 1e-6),
    (201, 0.9999),
    (10**6, 0.3),
]


@pytest.mark.usefixtures("_small_parts")
@pytest.mark.parametrize("dtype", essential(DTYPES, torch.bfloat16), ids=str)
@pytest.mark.parametrize(
    ("top_k", "top_p"), essential(FILTERS, (3, 0.6), slow=[(200, 0.999), (201, 0.9)])
)
def test_floors_of_several_parts_are_exact(
    top_k: int, top_p: float, dtype: torch.dtype, device: torch.device
) -> None:
    """The tokens kept are those of a sort, whatever the logits' range."""
    logits = rows_of_many_kinds(201)[:-1].to(dtype)
    temperatures = torch.ones(len(logits))
    temperatures[0] = 0.125
    on_device = logits.to(device)

    floors = thresholds.find_floors(
        on_device,
        sampling._best_of_parts(on_device),
        temperatures.to(device),
        torch.full((len(logits),), top_k, device=device),
        torch.full((len(logits),), top_p, device=device),
        PART,
    )

    wide = logits.float()
    wide = (wide - wide.amax(-1, keepdim=True)) / temperatures[:, None]
    bits = wide.view(torch.int32)
    orders = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    is_possible = wide > -INFINITY
    for row, floor in enumerate(floors.tolist()):
        wanted = kept_reference(wide[row], min(top_k, 201), top_p, 0.0)
        kept = orders[row] >= floor
        assert torch.equal(kept & is_possible[row], wanted & is_possible[row]), row


@pytest.mark.usefixtures("_small_parts")
@pytest.mark.parametrize("filters", essential([False, True], False, slow=[True]))
def test_a_row_draws_the_same_in_every_batch(
    filters: bool, device: torch.device
) -> None:
    """Also where there is nothing to draw, or not-a-number: then no token."""
    logits = rows_of_many_kinds(150).to(device)
    logits[3, 70] = math.nan
    count = len(logits)
    inputs = (logits, torch.ones(count, device=device), some_points(count, device))
    given = {
        "top_k": torch.full((count,), 9, device=device),
        "top_p": torch.full((count,), 0.9, device=device),
        "min_p": torch.full((count,), 0.01, device=device),
    }

    def drawn(rows: slice) -> list[int]:
        chosen = [one[rows] for one in inputs]
        if not filters:
            return draw(*chosen).tolist()
        options = {name: one[rows] for name, one in given.items()}
        return draw_filtered(*chosen, **options).tolist()

    together = drawn(slice(None))
    assert together == [drawn(slice(row, row + 1))[0] for row in range(count)]
    assert all(NO_TOKEN <= token < 150 for token in together)
    assert together[3] == together[-1] == NO_TOKEN
