"""Where steps begin to grow: fitted to measurements, and by a machine's peaks."""

from dataclasses import replace

import pytest
import torch

from hookline.step import ModelCost
from hookline_bench import machine_peaks
from hookline_bench.roofline import Peaks, Point, Roofline, fitted_bend
from hookline_bench.roofline_plot import roofline_plot
from hookline_testing.scripted_server import FACTS

SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
COST = ModelCost(
    flops_per_token=1e9, flops_per_sample=1e8, weight_bytes=10**9, kv_bytes_per_token=0
)
PEAKS = Peaks(flops=1e12, bytes=1e10)


def steps(seconds: dict[int, float]) -> list[Point]:
    return [Point(batch_size=size, seconds=each) for size, each in seconds.items()]


@pytest.mark.parametrize("at", [4.0, 11.0, 40.0])
def test_bend_is_where_steps_begin_to_grow(at: float) -> None:
    """Flat up to there and rising from there on, with some noise."""
    noise = (1.01, 0.99, 1.0, 1.01, 0.99, 1.0, 1.01, 0.99)
    true = [0.01 + 0.001 * max(0.0, size - at) for size in SIZES]
    points = steps(
        {size: each * by for size, each, by in zip(SIZES, true, noise, strict=True)}
    )

    bend = fitted_bend(points)

    assert bend is not None
    assert bend.batch_size == pytest.approx(at, rel=0.25)
    assert bend.flat == pytest.approx(0.01, rel=0.03)
    assert bend.slope == pytest.approx(0.001, rel=0.1)


def test_flat_or_few_steps_have_no_bend() -> None:
    """Nothing grows, or nobody can tell."""
    assert fitted_bend(steps(dict.fromkeys(SIZES, 0.01))) is None
    assert fitted_bend(steps({1: 0.01, 64: 0.5})) is None


def test_roofline_saturates_where_arithmetic_takes_as_long_as_memory() -> None:
    """0.1 s for the weights, 1.1 ms for each request's FLOPs."""
    model = Roofline(cost=COST, peaks=PEAKS, context=0.0)

    assert model.saturated_at == pytest.approx(0.1 / 0.0011)
    assert model.seconds(1) == model.seconds(90) == pytest.approx(0.1)
    assert model.seconds(200) == pytest.approx(0.22)
    assert (
        Roofline(
            cost=ModelCost(
                weight_bytes=10**9, kv_bytes_per_token=10**6, flops_per_token=1
            ),
            peaks=PEAKS,
            context=1000,
        ).saturated_at
        is None
    )


def test_plot_marks_both_batch_sizes() -> None:
    """B_sat, measured and modelled, where it lies among the batch sizes."""
    points = steps({size: 0.1 + 0.001 * max(0, size - 30) for size in SIZES})
    model = Roofline(cost=COST, peaks=PEAKS, context=0.0)

    both = roofline_plot("steps", points, fitted_bend(points), model)
    neither = roofline_plot("steps", points[:3], None, None)

    assert "B_sat measured: 3" in both
    assert "B_sat modelled: 90.9" in both
    assert "B_sat" not in neither
    assert "nan" not in both + neither


def test_peaks_are_those_of_the_faster_type(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where torch is slow in the model's type, the engine's kernels may not be."""
    shape = replace(FACTS.model, dtype="bfloat16", cost=COST, isa="avx2")
    seconds = {torch.bfloat16: 2.0, torch.float32: 0.5}
    monkeypatch.setattr(
        machine_peaks, "_best", lambda compute, _: seconds[compute().dtype]
    )

    peaks = machine_peaks.machine_peaks(shape)

    assert peaks is not None
    assert peaks.flops == 2 * 512 * 2048**2 / 0.5
    assert peaks.bytes == pytest.approx(2**29 / 0.5, rel=0.01)
