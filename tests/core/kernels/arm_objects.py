"""Compiles kernels for ARM, on any machine.

usage: python arm_objects.py neon|neon_bf16

The process pretends to be on ARM, so that the bodies are those for NEON. numba
optimises them for this machine's processor, whose instructions they do not name; the
modules then get ARM's triple, and LLVM translates them. Nothing of it runs. A line of
output is a kernel's name and its number of dot products of bfloat16 (`bfdot`).
"""

import os
import platform
import re
import sys
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from llvmlite import binding
from numba.core.ccallback import CFunc
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
from numba.core.sigutils import normalize_signature

TRIPLE = "aarch64-unknown-linux-gnu"
_BFDOT = ((0x6E40FC00, 0xFFE0FC00), (0x4F40F000, 0xFFC0F400))
"""Encodings of BFDOT by whole vectors and by an element, and the bits that do not name
registers (ARM DDI 0487)."""
LAYOUT = "e-m:e-i8:8:32-i16:16:32-i64:64-i128:128-n32:64-S128"


def pretend(tier: str, found: list[Any]) -> str:
    """Makes kernels' bodies those of a tier; returns ARM's features.

    numba's libraries are added to what is found, and not translated for this machine.
    """

    def keep(library: JITCodeLibrary) -> None:
        found.append(library)

    JITCodeLibrary._finalize_specific = keep  # type: ignore[method-assign]
    JITCodeLibrary.get_pointer_to_function = lambda *_: 1  # type: ignore[method-assign]
    JITCPUCodegen.set_env = lambda *_: None  # type: ignore[method-assign]
    features: dict[str, bool] = {"neon": True}
    platform.machine = lambda: "aarch64"  # also when bodies are written
    with (
        patch.object(binding, "get_host_cpu_features", lambda: features),
        patch("ctypes.CDLL") as library,
    ):
        library().getauxval.return_value = -1 if tier == "neon_bf16" else 0
        from hookline_kernels.cpu import isa  # noqa: PLC0415

        assert isa.current_isa().value == tier
        used = isa.compile_features()
    os.environ.pop("NUMBA_CPU_FEATURES", None)
    return used


def object_of(library: Any, features: str) -> bytes:
    """Translates a library to ARM's object code."""
    text = str(library._final_module)
    text = re.sub(r'target triple = ".*"', f'target triple = "{TRIPLE}"', text)
    text = re.sub(r'target datalayout = ".*"', f'target datalayout = "{LAYOUT}"', text)
    module = binding.parse_assembly(text)
    module.verify()
    target = binding.Target.from_triple(TRIPLE)
    machine = target.create_target_machine(features=features, opt=3)
    made: bytes = machine.emit_object(module)
    return made


def count_dots(code: bytes) -> int:
    assert code.startswith(b"\x7fELF")
    words = np.frombuffer(code[: len(code) // 4 * 4], np.uint32)
    return sum(int(np.count_nonzero(words & bits == each)) for each, bits in _BFDOT)


def main(tier: str) -> None:
    libraries: list[Any] = []
    features = pretend(tier, libraries)
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    from hookline_kernels.cpu import jit  # noqa: PLC0415

    def compile_kernel(body: Any, signature: Any, variant: str) -> SimpleNamespace:
        libraries.clear()
        options = {"error_model": "numpy", "nopython": True}
        CFunc(body, normalize_signature(signature), {}, options).compile()
        dots = sum(count_dots(object_of(each, features)) for each in libraries)
        sys.stdout.write(f"{variant} {dots}\n")
        return SimpleNamespace(address=1)

    jit.compile_kernel = compile_kernel
    from hookline_kernels.cpu.attention import CompiledAttention  # noqa: PLC0415
    from hookline_kernels.cpu.norm import RmsNorm  # noqa: PLC0415
    from hookline_kernels.cpu.quantized_integers import (  # noqa: PLC0415
        integers_kernel,
    )
    from hookline_kernels.cpu.vector_gemm import VectorGemm  # noqa: PLC0415

    for dtype in (torch.bfloat16, torch.float32):
        CompiledAttention(
            num_heads=4,
            num_kv_heads=2,
            key_dim=64,
            value_dim=64,
            block_size=16,
            dtype=dtype,
        )
        RmsNorm(torch.ones(64, dtype=dtype), 1e-5, unit_offset=False)
    VectorGemm(torch.ones(64, 64, dtype=torch.bfloat16))
    for bits in (4, 8):
        integers_kernel(bits, 64, 2, has_shifts=True, kind=0, in_tiles=False)


if __name__ == "__main__":
    main(sys.argv[1])
    sys.stdout.flush()
    os._exit(0)  # nothing may call the functions that are not there
