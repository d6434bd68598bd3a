"""How the attention of prompts is cut into programs and steps, chosen by measurement.

On one multiprocessor of an H100 or H200 fit two programs of 128 registers a thread, of
which one multiplies while the other takes exponentials, or one with more registers and
more keys on their way.
"""

from dataclasses import dataclass

import torch

_DEEP_BYTES = 160 << 10
"""Shared memory that three steps of any supported head fit into."""


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
"""All keys are those of the step."""
NEW_AFTER_CACHED = Tiling()
"""Some tokens are in the cache before the step's."""


def paged_tiling(device: torch.device) -> Tiling:
    """Returns how the paged kernel's work is cut on a device."""
    return PAGED if _is_roomy(device) else PAGED_ON_SMALL


def fetches_tiles(device: torch.device) -> bool:
    """Returns whether a device has a copy engine for tiles, and room for enough."""
    if device.type != "cuda":
        return True
    return torch.cuda.get_device_capability(device) >= (9, 0) and _is_roomy(device)


def _is_roomy(device: torch.device) -> bool:
    if device.type != "cuda":
        return False
    found = torch.cuda.get_device_properties(device)
    return found.shared_memory_per_multiprocessor >= _DEEP_BYTES
