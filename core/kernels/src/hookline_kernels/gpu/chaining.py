"""Launches of which each begins while the one before it ends (NVIDIA, from Hopper on).

A kernel that is launched so may load what no kernel writes, such as weights, before it
calls `follow`; all else it must read and write behind that call. Every program calls
it, so that a kernel's end means the end of all before it, too.
"""

from functools import lru_cache

import torch

from hookline_kernels.gpu.jit import kernel, tl

_LEAST_CAPABILITY = 9


@lru_cache
def is_chained(device: torch.device) -> bool:
    """Whether kernels on this device can be launched so."""
    if device.type != "cuda" or torch.version.hip is not None:
        return False
    return torch.cuda.get_device_capability(device)[0] >= _LEAST_CAPABILITY


def chained(device: torch.device) -> dict[str, bool]:
    """Returns the options of a launch: also the kernel's constant `chains`."""
    return {"chains": True, "launch_pdl": True} if is_chained(device) else {}


@kernel
def lead(chains: tl.constexpr) -> None:
    """Lets the next kernel begin as soon as there is room for it."""
    if chains:
        tl.extra.cuda.gdc_launch_dependents()


@kernel
def follow(chains: tl.constexpr) -> None:
    """Waits for the end of the kernel before."""
    if chains:
        tl.extra.cuda.gdc_wait()
