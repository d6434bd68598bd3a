"""Launches of kernels that do not bind arguments again that were bound before.

Triton finds the compiled kernel of a launch by looking at every argument, which takes
the host longer than many kernels take the device. It depends on little of them.
"""

import os
from typing import Any

import torch
import triton  # type: ignore[import-untyped]
from triton.tools.tensor_descriptor import (  # type: ignore[import-untyped]
    TensorDescriptor,
)

_ALIGNMENT = 16
_MOST_BOUND = 4096
_binds_always = os.environ.get("TRITON_INTERPRET") == "1" or bool(torch.version.hip)
_bound: dict[tuple[object, ...], tuple[Any, tuple[object, ...]]] = {}
"""Compiled kernels and the arguments that come last, by what both depend on."""


def launch(
    kernel: Any, grid: tuple[int, ...], *arguments: object, **options: object
) -> None:
    """Launches `kernel[grid](*arguments, **options)`.

    Args:
        kernel: A function that Triton compiles, whose constants come last.
        grid: Number of programs in up to three dimensions.
        *arguments: Tensors, descriptors of tensors, numbers and None.
        **options: The constants, and options of the launch.
    """
    if _binds_always:
        kernel[grid](*arguments, **options)
        return
    driver = triton.runtime.driver.active
    device = driver.get_current_device()
    key = (
        *(id(kernel), device, *options, *options.values()),
        *[each if type(each) is int else _kind(each) for each in arguments],
    )
    found = _bound.get(key)
    if found is None:
        if len(_bound) >= _MOST_BOUND:
            _bound.clear()
        compiled = kernel[grid](*arguments, **options)
        _bound[key] = compiled, _constants(kernel, len(arguments), options)
        return
    compiled, constants = found
    stream = driver.get_current_stream(device)
    whole = (*grid, 1, 1)
    compiled[whole](*arguments, *constants, stream=stream)


def _kind(argument: object) -> object:
    """Returns the traits of a non-integer argument that Triton specializes kernels on.

    That is a tensor's dtype and whether it is aligned, and else the type. Integers are
    compared as they are: they are sizes and strides, of which few differ.
    """
    if isinstance(argument, torch.Tensor):
        dtype = argument.dtype
        return (dtype,) if argument.data_ptr() % _ALIGNMENT else dtype
    if isinstance(argument, TensorDescriptor):
        return (argument.base.dtype, *argument.block_shape)
    return type(argument)


def _constants(
    kernel: Any, count: int, options: dict[str, object]
) -> tuple[object, ...]:
    """Returns the values of a kernel's parameters behind the first `count`."""
    parameters = list(kernel.signature.parameters.values())[count:]
    return tuple(options.get(each.name, each.default) for each in parameters)
