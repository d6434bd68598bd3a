"""Positive numbers as float32."""

import numpy as np

_LEAST = float(np.finfo(np.float32).tiny)
_LARGEST = float(np.finfo(np.float32).max)


def positive_float32(value: float) -> float:
    """Clamps a positive number so that float32 rounds it neither to 0 nor infinity."""
    return min(max(value, _LEAST), _LARGEST)
