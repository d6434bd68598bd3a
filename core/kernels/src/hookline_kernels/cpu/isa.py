"""The instruction sets that kernels are compiled for, in tiers.

`HOOKLINE_CPU_ISA` names a lower tier than this machine's, as oneDNN's own variable
does; kernels then use no instruction above it. `HOOKLINE_EMULATE_AMX` is for tests:
"missing:FILE" emulates the matrix unit (AMX) by a module (`tile_emulation.py`) where
kernels may not use one, "always:FILE" everywhere. Both are read once.
"""

import ctypes
import os
import platform
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from pathlib import Path

from llvmlite import binding

from hookline_kernels.failure import KernelError

VARIABLE = "HOOKLINE_CPU_ISA"
EMULATION = "HOOKLINE_EMULATE_AMX"
_ARCH_PRCTL, _REQUEST, _TILE_DATA = 158, 0x1023, 18
"""The system call that asks Linux for the tiles' registers, and its arguments."""
_HWCAP2, _HWCAP2_BF16 = 26, 1 << 14
"""Linux' entry for more features of ARM's processors, and its bit for bfloat16."""


class Isa(Enum):
    """A tier of instructions; those of one architecture are listed in ascending order.

    AVX2 is with FMA; AVX512 is F, BW, CD, DQ and VL; VNNI has dot products of bytes;
    NEON_BF16 has bfloat16's dot products and matrix products. Processors with VNNI in
    256 bits need not have AVX-512, and the reverse.
    """

    NEON = "neon"
    NEON_BF16 = "neon_bf16"
    AVX2 = "avx2"
    AVX2_VNNI = "avx2_vnni"
    AVX512 = "avx512"
    AVX512_VNNI = "avx512_vnni"
    AVX512_BF16 = "avx512_bf16"
    AMX = "amx"

    def includes(self, other: "Isa") -> bool:
        """Whether a processor of this tier has all instructions of another."""
        own = next(line for line in _LINES if self in line)
        return other in own[: own.index(self) + 1]


_LINES = (
    (Isa.NEON, Isa.NEON_BF16),
    (Isa.AVX2, Isa.AVX2_VNNI),
    (Isa.AVX2, Isa.AVX512, Isa.AVX512_VNNI, Isa.AVX512_BF16, Isa.AMX),
)
_NEEDS: Mapping[Isa, tuple[str, ...]] = {
    Isa.NEON: ("neon",),
    Isa.NEON_BF16: (),
    Isa.AVX2: ("avx2", "fma"),
    Isa.AVX2_VNNI: ("avxvnni",),
    Isa.AVX512: ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
    Isa.AVX512_VNNI: ("avx512vnni",),
    Isa.AVX512_BF16: ("avx512bf16",),
    Isa.AMX: ("amx-tile", "amx-bf16", "amx-int8"),
}
"""LLVM's names of what a tier has beyond the one below."""


@cache
def host_isas() -> tuple[Isa, ...]:
    """Returns the tiers that this machine has, in ascending order; none is possible."""
    found: list[Isa] = []
    is_arm = platform.machine() in {"aarch64", "arm64"}
    for line in _LINES[:1] if is_arm else _LINES[1:]:
        for isa in line:
            if not _has(isa):
                break
            if isa not in found:
                found.append(isa)
    return tuple(found)


@cache
def current_isa() -> Isa:
    """Returns the tier that kernels use: this machine's, or the lower one that is set.

    Raises:
        KernelError: The machine has no tier, and none is set.
        ValueError: The variable names no tier of this machine.
    """
    names = [isa.value for isa in host_isas()]
    if wanted := os.environ.get(VARIABLE):
        if wanted not in names:
            raise ValueError(
                f"{VARIABLE} is {wanted!r}, but this machine has "
                f"{', '.join(names) or 'none of the instruction sets'}"
            )
        return Isa(wanted)
    if not names:
        raise KernelError("the CPU has neither AVX2 with FMA nor NEON")
    return host_isas()[-1]


def compile_features() -> str:
    """Returns the features of the compile target, in LLVM's notation.

    They are this machine's without those above the tier.
    """
    isa, features = current_isa(), dict(_host_features())
    above = [
        start for each, own in _OWN.items() if not isa.includes(each) for start in own
    ]
    for name in features:
        if name.startswith(tuple(above)):
            features[name] = False
    if isa is Isa.NEON_BF16:
        features["bf16"] = True  # LLVM does not ask Linux for it
    return ",".join(
        f"{'+' if features[name] else '-'}{name}" for name in sorted(features)
    )


def is_lowered() -> bool:
    """Whether the tier is below this machine's."""
    return bool(host_isas()) and current_isa() is not host_isas()[-1]


@cache
def has_matrix_unit() -> bool:
    """Whether kernels use the matrix unit."""
    return current_isa() is Isa.AMX


@cache
def has_fast_bf16_dots() -> bool:
    """Whether dot products of bfloat16 pairs are faster than two products in float32.

    AMD's and ARM's processors start as many of them as of fused products in float32,
    Intel's (Sapphire Rapids, measured) a quarter.
    """
    isa = current_isa()
    if isa is Isa.NEON_BF16:
        return True
    is_amd = binding.get_host_cpu_name().startswith("znver")
    return is_amd and isa.includes(Isa.AVX512_BF16)


@cache
def emulates_tiles() -> bool:
    """Whether kernels emulate the matrix unit.

    Raises:
        ValueError: The environment variable has an unknown value.
    """
    given = os.environ.get(EMULATION, "")
    when, _, file = given.partition(":")
    if given and not (when in {"missing", "always"} and file):
        raise ValueError(
            f'{EMULATION} is "missing:FILE", "always:FILE" or unset, not {given!r}'
        )
    return when == "always" or (when == "missing" and not has_matrix_unit())


def emulator_path() -> Path:
    """Returns the file that emulates the matrix unit, where tiles are emulated."""
    return Path(os.environ[EMULATION].partition(":")[2])


@cache
def has_float_scaling() -> bool:
    """Whether kernels use AVX-512's instructions for the parts of a float."""
    return current_isa().includes(Isa.AVX512) and not emulates_tiles()


@cache
def has_byte_dots() -> bool:
    """Whether kernels use dot products of bytes (VNNI)."""
    isa = current_isa()
    return isa is Isa.AVX2_VNNI or isa.includes(Isa.AVX512_VNNI)


def _has(isa: Isa) -> bool:
    features = _host_features()
    has_features = all(features.get(name) for name in _NEEDS[isa])
    return has_features and (isa not in _ASKED or _ASKED[isa]())


@cache
def _host_features() -> Mapping[str, bool]:
    return dict(binding.get_host_cpu_features())


def _may_use_tiles() -> bool:
    """Asks Linux for the tiles' registers, which is harmless to repeat."""
    if platform.system() != "Linux":
        return False
    request = ctypes.CDLL(None, use_errno=True).syscall
    arguments = (_ARCH_PRCTL, _REQUEST, _TILE_DATA)
    return bool(request(*[ctypes.c_long(each) for each in arguments]) == 0)


def _has_neon_bf16() -> bool:
    if platform.system() != "Linux":
        return False
    auxiliary = ctypes.CDLL(None).getauxval
    auxiliary.restype = ctypes.c_ulong
    return bool(auxiliary(ctypes.c_ulong(_HWCAP2)) & _HWCAP2_BF16)


_ASKED: Mapping[Isa, Callable[[], bool]] = {
    Isa.AMX: _may_use_tiles,
    Isa.NEON_BF16: _has_neon_bf16,
}
"""Tiers for which the system is asked, too."""
_OWN: Mapping[Isa, tuple[str, ...]] = {
    Isa.AMX: ("amx-", "avx10", "avx512fp16"),
    Isa.AVX512_BF16: ("avx512bf16",),
    Isa.AVX512_VNNI: ("avx512vnni",),
    Isa.AVX512: ("avx512", "evex512"),
    Isa.AVX2_VNNI: ("avxvnni",),
    Isa.NEON_BF16: ("bf16", "sve"),
}
"""How LLVM's names of features begin that no tier below has."""
