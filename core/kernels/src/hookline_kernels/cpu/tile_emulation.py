"""Loads what emulates the matrix unit, in tests on CPUs without one."""

import ctypes
from collections.abc import Iterable
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from typing import Protocol, cast

from llvmlite import ir

from hookline_kernels.cpu.isa import emulator_path
from hookline_kernels.failure import KernelError


class TileEmulator(Protocol):
    """A module that emulates the matrix unit's instructions."""

    def publish_key(self) -> ctypes.c_uint64:
        """Makes the threads' tiles known to compiled functions; may be repeated.

        Raises:
            KernelError: The system has no place for them.
        """
        ...

    def emulate(
        self, builder: ir.IRBuilder, name: str, args: Iterable[ir.Value]
    ) -> None:
        """Emits what does the work of an instruction, named as in LLVM."""
        ...


@cache
def tile_emulator() -> TileEmulator:
    """Returns the module in the file that the environment names.

    Raises:
        KernelError: There is no such module.
    """
    path = emulator_path()
    spec = spec_from_file_location("hookline_tile_emulator", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise KernelError(f"{path} does not emulate the matrix unit")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return cast("TileEmulator", module)
