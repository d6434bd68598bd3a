"""The compiler and its language, under names that a type checker takes."""

from collections.abc import Callable
from typing import Any

import triton  # type: ignore[import-untyped]
import triton.language as tl  # type: ignore[import-untyped]

__all__ = ["kernel", "power_of_two", "tl"]

kernel: Callable[[Callable[..., Any]], Any] = triton.jit
"""Compiles a function for the device on its first launch, or once it is called."""


def power_of_two(number: int, least: int = 1) -> int:
    """The smallest power of two that is neither below `number` nor below `least`."""
    return max(1 << max(number - 1, 0).bit_length(), least)
