"""Compares a replacement with the original, on random numbers."""

from collections.abc import Callable

import torch

_TOLERANCES = {torch.bfloat16: 0.03, torch.float16: 0.01, torch.float32: 1e-5}
"""Largest difference relative to the largest result."""
MODULE_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""What modules raise whose inputs do not fit them."""


def random_values(width: int, like: torch.Tensor, tokens: int = 5) -> torch.Tensor:
    """Returns the same [1, tokens, width] each time, from its own generator."""
    source = torch.Generator().manual_seed(0)
    return torch.randn(1, tokens, width, generator=source).to(like)


def agree(
    old: Callable[..., object], new: Callable[..., object], *values: torch.Tensor
) -> bool:
    """Whether both give the same; a call that raises agrees with nothing."""
    try:
        with torch.inference_mode():
            return _is_close(old(*values), new(*values))
    except MODULE_ERRORS:
        return False


def _is_close(expected: object, found: object) -> bool:
    if isinstance(expected, tuple) and isinstance(found, tuple):
        return len(expected) == len(found) and all(
            _is_close(*pair) for pair in zip(expected, found, strict=True)
        )
    if not isinstance(expected, torch.Tensor) or not isinstance(found, torch.Tensor):
        return False
    if expected.shape != found.shape or expected.dtype != found.dtype:
        return False
    tolerance = _TOLERANCES.get(expected.dtype, 0.0)
    wide = expected.float()
    return bool((wide - found.float()).abs().max() <= tolerance * wide.abs().max())
