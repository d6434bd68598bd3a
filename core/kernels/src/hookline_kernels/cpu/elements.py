"""Access to tensors' elements, for kernels that are plain loops.

A kernel's arguments are 64-bit numbers: addresses, counts and strides. Argument 0 is a
counter from which threads take work items until none is left.
"""

import struct
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

import numpy as np
import torch
from numba import njit
from numba.core import types
from numba.extending import intrinsic, overload
from numba.np.numpy_support import carray

Function = TypeVar("Function", bound=Callable[..., Any])

SCALARS = {torch.bfloat16: np.uint16, torch.float32: np.float32}
"""numpy type by which loops read each dtype; bfloat16 is read as bits."""

_FLAGS = {"reassoc", "nsz", "contract"}
_OPTIONS: Mapping[str, Any] = {
    "error_model": "numpy",
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}
"""Only kernels call these functions, so numba compiles no entries from Python and C."""


def summing(function: Function) -> Function:
    """Compiles a function whose sums may be reordered, and so vectorised."""
    return cast("Function", njit(fastmath=_FLAGS, **_OPTIONS)(function))


def exact(function: Function) -> Function:
    """Compiles a function whose operations are rounded one by one, as in torch."""
    return cast("Function", njit(**_OPTIONS)(function))


def float_bits(value: float) -> int:
    """Packs a float into an integer argument."""
    return int.from_bytes(struct.pack("=d", value), sys.byteorder, signed=True)


@exact
def to_float(bits: Any) -> Any:
    """Returns the float32 nearest to the float that `float_bits` packed."""
    return np.float32(np.int64(bits).view(np.float64))


def _pointer(_: Any, address: Any, scalar: Any) -> Any:
    """(address, type of numpy) → a pointer."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target = context.get_value_type(signature.return_type)
        return builder.inttoptr(arguments[0], target)

    pointer: Any = types.CPointer
    return pointer(scalar.dtype)(address, scalar), emit


_to_pointer: Any = intrinsic(_pointer)


@exact
def array_at(address: Any, count: Any, scalar: Any) -> Any:
    """Returns a view of `count` elements at an address, unchecked."""
    return carray(_to_pointer(address, scalar), (count,))


def widen(value: Any) -> Any:
    """Converts an element to float32; in kernels only."""
    raise NotImplementedError(value)


def _widen(value: Any) -> Callable[[Any], Any]:
    """Implements `widen` for a type."""
    if value is types.float32:
        return lambda value: value
    return lambda value: np.uint32(np.uint32(value) << np.uint32(16)).view(np.float32)


overload(widen, strict=False)(_widen)
