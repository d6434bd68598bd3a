"""Triton and its language, with type annotations."""

import os
from collections.abc import Callable
from typing import Any

import triton  # type: ignore[import-untyped]
import triton.language as tl  # type: ignore[import-untyped]

from hookline_kernels.gpu.assembler import choose_assembler

__all__ = ["kernel", "power_of_two", "tl"]

choose_assembler()
# Versions of Triton differ in the default. A kernel that must round each product turns
# fusion off at its launch.
os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
kernel: Callable[[Callable[..., Any]], Any] = triton.jit
"""Compiles a function for the device at its first launch or call."""


def power_of_two(number: int, least: int = 1) -> int:
    """Returns the smallest power of two that is at least `number` and `least`."""
    return max(1 << max(number - 1, 0).bit_length(), least)
