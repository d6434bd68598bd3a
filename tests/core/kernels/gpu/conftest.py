"""Runs the GPU's kernels in Triton's interpreter, or on a device where one is named.

Triton decides at its import whether it interprets. Other code of this process may have
imported it, and goes on with its own copy: the interpreting copy is among the imported
modules only while a test of this folder runs. `KERNEL_DEVICE=cuda` in the environment
compiles instead; see `test_gpu_device.py`.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

DEVICE = torch.device(os.environ.get("KERNEL_DEVICE", "cpu"))
KERNELS = "hookline_kernels.gpu"


def is_python_of_triton(name: str) -> bool:
    """Excludes its machine code, which loads only once and serves both copies."""
    return name.partition(".")[0] == "triton" and not name.startswith("triton._C")


def take_out() -> dict[str, ModuleType]:
    names = [name for name in sys.modules if is_python_of_triton(name)]
    return {name: sys.modules.pop(name) for name in names}


@contextmanager
def interpreting(copy: dict[str, ModuleType]) -> Iterator[None]:
    """Exchanges Triton for a copy that interprets, and the other way round."""
    before = os.environ.get("TRITON_INTERPRET")
    others = take_out()
    sys.modules.update(copy)
    os.environ["TRITON_INTERPRET"] = "1"
    try:
        yield
    finally:
        copy.update(take_out())
        sys.modules.update(others)
        del os.environ["TRITON_INTERPRET"]
        if before is not None:
            os.environ["TRITON_INTERPRET"] = before


def import_kernels() -> None:
    """Imports the kernels again, with the current copy of Triton."""
    for name in [name for name in sys.modules if name.startswith(KERNELS)]:
        del sys.modules[name]
    for module in iter_modules(import_module(KERNELS).__path__):
        import_module(f"{KERNELS}.{module.name}")


def teach_bfloat16() -> None:
    """Makes the interpreter round and multiply bfloat16 like a device."""
    builder = import_module("triton.runtime.interpreter").InterpreterBuilder
    language = import_module("triton.language")
    plain_cast, plain_dot = builder.cast_impl, builder.create_dot

    def cast(self: Any, source: Any, target: Any) -> Any:
        kinds = (source.dtype.scalar, target.scalar)
        if kinds == (language.float32, language.bfloat16):
            rounded = torch.from_numpy(np.array(source.data)).bfloat16()
            bits = rounded.view(torch.int16).numpy().view(np.uint16)
        elif kinds == (language.bfloat16, language.float32):
            bits = np.left_shift(source.data, 16, dtype=np.uint32).view(np.float32)
        else:
            return plain_cast(self, source, target)
        return type(source)(bits, target.scalar)

    def dot(self: Any, first: Any, second: Any, *others: Any) -> Any:
        if first.dtype.scalar == language.bfloat16:
            first = cast(self, first, language.float32)
            second = cast(self, second, language.float32)
        return plain_dot(self, first, second, *others)

    builder.cast_impl, builder.create_dot = cast, dot


def patch_once() -> None:
    """Patches the language once a launch, not for each function that a kernel calls."""
    interpreter: Any = import_module("triton.runtime.interpreter")
    language, patch_all = interpreter.tl, interpreter._patch_lang

    def patch(function: Any) -> Any:
        used = [
            each
            for each in function.__globals__.values()
            if each is language or each is language.core
        ]
        if any(language.core.is_builtin(each.load) for each in used):
            return patch_all(function)
        return None

    interpreter._patch_lang = patch


COPY: dict[str, ModuleType] = {}
if find_spec("triton") and DEVICE.type == "cpu":
    with interpreting(COPY):
        import_kernels()
        teach_bfloat16()
        patch_once()
    # The end of the process takes down only modules that are among the imported ones.
    sys.modules.update({f"interpreting {name}": one for name, one in COPY.items()})


@pytest.fixture(autouse=True)
def _triton_interprets() -> Iterator[None]:
    if DEVICE.type == "cpu":
        with interpreting(COPY):
            yield
    else:
        yield


@pytest.fixture
def device() -> torch.device:
    """Device of a test's tensors."""
    return DEVICE
