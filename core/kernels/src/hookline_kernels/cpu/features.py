"""Which of the CPU's instructions kernels use, and which they emulate.

The environment variable HOOKLINE_EMULATE_AMX is for tests: "missing" emulates the
matrix unit (AMX) on machines without one, "always" on all machines. It is read once.
"""

import os
from functools import cache

import torch
from llvmlite import binding

VARIABLE = "HOOKLINE_EMULATE_AMX"


@cache
def has_matrix_unit() -> bool:
    """Whether there is a matrix unit, and the system lets this process use it."""
    features = binding.get_host_cpu_features()
    return bool(features.get("amx-bf16")) and torch.cpu._init_amx()  # noqa: SLF001


@cache
def emulates_tiles() -> bool:
    """Whether kernels emulate the matrix unit.

    Raises:
        ValueError: The environment variable has an unknown value.
    """
    wanted = os.environ.get(VARIABLE, "")
    if wanted not in {"", "missing", "always"}:
        raise ValueError(f'{VARIABLE} is "missing", "always" or unset, not {wanted!r}')
    return wanted == "always" or (wanted == "missing" and not has_matrix_unit())


@cache
def has_float_scaling() -> bool:
    """Whether kernels use AVX-512's instructions for the parts of a float."""
    features = binding.get_host_cpu_features()
    is_there = bool(features.get("avx512f")) and bool(features.get("avx512dq"))
    return is_there and not emulates_tiles()
