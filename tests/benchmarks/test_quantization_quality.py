"""What weights in 8 and 4 bits cost the demo model in quality."""

import pytest
from quantization import measure_quality

BOUNDS = {
    "w8a16": (0.003, 1.5e-3),
    "w8a8": (0.005, 2.5e-3),
    "w4a16": (0.045, 0.05),
    "w4a8": (0.045, 0.05),
}
"""Relative change of perplexity, mean KL divergence from bfloat16 in nats."""
BESIDE = {"w8a8": ("w8a16", 0.005), "w4a8": ("w4a16", 0.01)}
"""What activations in 8 bits change at most, beside the same weights."""


def assert_are_within_bounds(found: dict[str, tuple[float, float]]) -> None:
    for kind, (same, change) in BESIDE.items():
        assert found[kind][0] == pytest.approx(found[same][0], rel=change)
    perplexity, _ = found.pop("plain")
    assert found.keys() == BOUNDS.keys()
    for kind, (own, divergence) in found.items():
        change, most = BOUNDS[kind]
        assert own == pytest.approx(perplexity, rel=change)
        assert 0 < divergence < most


@pytest.mark.slow
def test_quantized_weights_lose_little() -> None:
    """Perplexity and divergence from bfloat16 stay within bounds, without kernels."""
    assert_are_within_bounds(measure_quality("demo", 512, may_compile=False))


@pytest.mark.exhaustive
def test_kernels_lose_no_more() -> None:
    """Over more text, within the same bounds."""
    assert_are_within_bounds(measure_quality("demo", 8192))
