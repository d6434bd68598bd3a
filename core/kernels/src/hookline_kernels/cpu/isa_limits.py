"""Limits the libraries that compute to the tier that kernels may use.

They read environment variables when they compute for the first time, which is after
their import; processes that are started later inherit them.
"""

import os
import sys
from collections.abc import Mapping

from hookline_kernels.cpu.isa import Isa, compile_features, current_isa, is_lowered

_LIMITS: Mapping[Isa, Mapping[str, str]] = {
    Isa.AVX512_BF16: {
        "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16",
        "ATEN_CPU_CAPABILITY": "avx512",
        "MKL_ENABLE_INSTRUCTIONS": "AVX512",
    },
    Isa.AVX512_VNNI: {
        "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_VNNI",
        "ATEN_CPU_CAPABILITY": "avx512",
        "MKL_ENABLE_INSTRUCTIONS": "AVX512",
    },
    Isa.AVX512: {
        "ONEDNN_MAX_CPU_ISA": "AVX512_CORE",
        "ATEN_CPU_CAPABILITY": "avx512",
        "MKL_ENABLE_INSTRUCTIONS": "AVX512",
    },
    Isa.AVX2_VNNI: {
        "ONEDNN_MAX_CPU_ISA": "AVX2_VNNI",
        "ATEN_CPU_CAPABILITY": "avx2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    },
    Isa.AVX2: {
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "ATEN_CPU_CAPABILITY": "avx2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    },
}


def limit_libraries() -> Isa:
    """Limits oneDNN, ATen, MKL and numba to the tier that kernels use; returns it.

    Has no effect on those that have computed before.

    Raises:
        KernelError: The machine has no tier, and none is set.
        ValueError: The variable names no tier of this machine.
    """
    isa = current_isa()
    if is_lowered():
        os.environ.update(_LIMITS.get(isa, {}))
    if is_lowered() or isa is Isa.NEON_BF16:
        os.environ["NUMBA_CPU_FEATURES"] = compile_features()
        if numba := sys.modules.get("numba"):
            numba.core.config.reload_config()
    return isa
