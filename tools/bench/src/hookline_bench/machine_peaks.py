"""Measures what a machine reaches at best, for rooflines."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from hookline.step import ModelShape
from hookline_bench.roofline import Peaks

if TYPE_CHECKING:
    import torch

SECONDS = 0.3
"""How long each measurement lasts."""
LEAST_BYTES, MOST_BYTES = 2**20, 2**29
"""Bounds of the weights that are read: as many as the model's, as caches may count."""
_ROWS, _SIDE = 512, 2048


def machine_peaks(model: ModelShape) -> Peaks | None:
    """Returns the peaks for the model's data type; None for a model without cost.

    On a processor, also those in float32: where it has no instructions for the type,
    torch is slow, and the engine's kernels compute in float32.
    """
    if not model.cost.weight_bytes:
        return None
    import torch  # noqa: PLC0415 - the other benchmarks of this package need none

    dtype = getattr(torch, model.dtype)
    device = "cuda" if not model.isa and torch.cuda.is_available() else "cpu"
    dtypes = {dtype} if device == "cuda" else {dtype, torch.float32}
    found = [_peaks(model, each, device) for each in dtypes]
    return Peaks(
        flops=max(each.flops for each in found),
        bytes=max(each.bytes for each in found),
    )


def _peaks(model: ModelShape, dtype: "torch.dtype", device: str) -> Peaks:
    import torch  # noqa: PLC0415

    size = torch.empty((), dtype=dtype).element_size()
    wanted = min(max(model.cost.weight_bytes, LEAST_BYTES), MOST_BYTES)
    side = max(64, round((wanted / size) ** 0.5))
    with torch.inference_mode():
        weights = torch.ones(side, side, dtype=dtype, device=device)
        row = torch.ones(1, side, dtype=dtype, device=device)
        reading = _best(lambda: row @ weights.T, device)
        left = torch.ones(_ROWS, _SIDE, dtype=dtype, device=device)
        right = torch.ones(_SIDE, _SIDE, dtype=dtype, device=device)
        computing = _best(lambda: left @ right.T, device)
    return Peaks(
        flops=2 * _ROWS * _SIDE * _SIDE / computing,
        bytes=side * side * size / reading,
    )


def _best(compute: "Callable[[], torch.Tensor]", device: str) -> float:
    """Returns the shortest duration of a computation."""
    import torch  # noqa: PLC0415

    best, end = float("inf"), time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        began = time.perf_counter()
        compute()
        if device == "cuda":
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - began)
    return best
