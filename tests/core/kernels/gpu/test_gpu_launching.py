"""Launches find again what was bound, and only that."""

import inspect
from types import SimpleNamespace
from typing import Any

import pytest
import torch

pytest.importorskip("triton", reason="Triton is not installed")

from hookline_kernels.gpu import launching


class Kernel:
    """Stands for a kernel and, once compiled, for what Triton returns."""

    def __init__(self) -> None:
        self.signature = inspect.signature(self.run)
        self.bound: list[tuple[object, ...]] = []
        self.found: list[tuple[object, ...]] = []

    @staticmethod
    def run(
        _values: object, _count: object, _factor: object, width: int, chains: int = 0
    ) -> None: ...

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        def launched(*arguments: object, **options: object) -> Any:
            if "stream" in options:
                self.found.append((*grid, options["stream"], *arguments[1:]))
                return None
            self.bound.append((*grid, *arguments[1:]))
            return self

        return launched


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    active = SimpleNamespace(
        get_current_device=lambda: 0, get_current_stream=lambda _: 7
    )
    runtime = SimpleNamespace(driver=SimpleNamespace(active=active))
    monkeypatch.setattr(launching, "triton", SimpleNamespace(runtime=runtime))
    monkeypatch.setattr(launching, "_binds_always", False)
    return Kernel()


def test_alike_launches_are_bound_once(kernel: Kernel) -> None:
    """Later ones get all parameters in order, the constants and defaults last."""
    for place, factor in ((0, 0.5), (4, 0.25), (8, 0.5)):
        values = torch.zeros(64)[place:]
        launching.launch(kernel, (place, 3), values, 33, factor, width=4, num_warps=8)

    assert kernel.bound == [(0, 3, 33, 0.5)]
    assert kernel.found == [
        (4, 3, 1, 1, 7, 33, 0.25, 4, 0),
        (8, 3, 1, 1, 7, 33, 0.5, 4, 0),
    ]


def test_few_are_kept(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else sizes that differ with each step would fill the memory."""
    monkeypatch.setattr(launching, "_MOST_BOUND", 2)
    monkeypatch.setattr(launching, "_bound", {})
    for count in (1, 2, 3, 3, 1):
        launching.launch(kernel, (1,), torch.zeros(64), count, 0.5, width=4)

    assert [bound[1] for bound in kernel.bound] == [1, 2, 3, 1]


@pytest.mark.parametrize(
    ("values", "count", "options"),
    [
        (torch.zeros(64).half(), 33, {"width": 4}),
        (torch.zeros(64)[1:], 33, {"width": 4}),
        (None, 33, {"width": 4}),
        (torch.zeros(64), 1, {"width": 4}),
        (torch.zeros(64), 33, {"width": 5}),
        (torch.zeros(64), 33, {"width": 4, "chains": 1}),
        (torch.zeros(64), 33, {"width": 4, "num_stages": 2}),
    ],
)
def test_what_triton_compiles_apart_is_bound_apart(
    kernel: Kernel,
    values: torch.Tensor | None,
    count: int,
    options: dict[str, int],
) -> None:
    """Dtype, alignment, numbers, constants, options."""
    launching.launch(kernel, (1,), torch.zeros(64), 33, 0.5, width=4)

    launching.launch(kernel, (1,), values, count, 0.5, **options)

    assert len(kernel.bound) == 2
    assert not kernel.found
