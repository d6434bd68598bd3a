"""How the attention of prompts is cut into programs and steps, chosen by measurement.

On one multiprocessor of an H100 or H200 fit two programs of 128 registers a thread, of
which one multiplies while the other takes exponentials, or one with more registers and
more keys on their way. The former needs enough programs.
"""

from dataclasses import dataclass

import torch

_DEEP_BYTES, _DEEPEST_BYTES = 160 << 10, 228 << 10
"""Shared memory that three steps of 64 keys, and of 128, fit into."""
_NARROW = 64


@dataclass(frozen=True, slots=True)
class Tiling:
    """How a kernel's work is cut.

    Attributes:
        rows: Most query heads of some tokens in a program, a power of two.
        step: Most keys of a step.
        stages: Steps whose keys are in shared memory at once.
        warps: Warps of a program of `rows` rows.
        registers: Most registers of a thread; None leaves it to the compiler.
        ahead: Whether the cache's blocks are looked up a step before their keys.
    """

    rows: int = 128
    step: int = 64
    stages: int = 3
    warps: int = 8
    registers: int | None = None
    ahead: bool = True

    @property
    def options(self) -> dict[str, int]:
        """What the launch is given."""
        options = {"num_stages": self.stages}
        return (
            options if self.registers is None else options | {"maxnreg": self.registers}
        )


PAGED = Tiling()
"""All keys are read from the cache."""
PAGED_ON_SMALL = Tiling(stages=2)
"""Likewise, where a multiprocessor has little shared memory."""
NEW = Tiling(stages=2, registers=128)
"""All keys are those of the step, and there are many programs."""
NEW_OF_FEW = Tiling(step=128)
"""There are few programs, or some tokens are in the cache before the step's."""
NEW_NARROW = Tiling(rows=64, step=128, stages=2, warps=4)
"""Keys have at most 64 numbers."""


def paged_tiling(device: torch.device) -> Tiling:
    """Returns how the paged kernel's work is cut on a device."""
    return PAGED if _has_room(device, _DEEP_BYTES) else PAGED_ON_SMALL


def new_tiling(
    device: torch.device, *, width: int, has_cached: bool, query_rows: int
) -> Tiling:
    """Returns how attention over a step's own keys is cut.

    Args:
        device: The GPU.
        width: Numbers of a key.
        has_cached: Whether some tokens are in the cache before the step's.
        query_rows: Query heads of all tokens together, about.
    """
    if width <= _NARROW:
        return NEW_NARROW
    is_many = query_rows > 2 * NEW.rows * _multiprocessors(device)
    return NEW if is_many and not has_cached else NEW_OF_FEW


def fetches_tiles(device: torch.device) -> bool:
    """Returns whether a device has a copy engine for tiles, and room for enough."""
    if device.type != "cuda":
        return True
    is_recent = torch.cuda.get_device_capability(device) >= (9, 0)
    return is_recent and _has_room(device, _DEEPEST_BYTES)


def _multiprocessors(device: torch.device) -> int:
    if device.type != "cuda":
        return 1
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


def _has_room(device: torch.device, shared: int) -> bool:
    if device.type != "cuda":
        return False
    found = torch.cuda.get_device_properties(device)
    return found.shared_memory_per_multiprocessor >= shared
