"""Limits every compared side to the same instruction set.

Hookline obeys `HOOKLINE_CPU_ISA`. Peers obey the switches of their libraries: oneDNN,
ATen and MKL; and what asks torch for the processor's features (vLLM's kernels and its
choice among its extensions, torch's compiler) gets the answer of a lesser processor, by
`isa_limit/sitecustomize.py`.
"""

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import Path

from compare_work import VLLM, Goal

HIDDEN = "HOOKLINE_BENCH_HIDDEN_FEATURES"
"""Environment variable of `isa_limit`: names of torch, separated by spaces."""


class Isa(StrEnum):
    """Instruction sets of x86 without a matrix unit, highest first."""

    AVX512_BF16 = "avx512_bf16"
    AVX512 = "avx512"
    AVX2 = "avx2"


_AMX = ("amx_",)
_BF16 = (*_AMX, "avx512_bf16", "avx512_fp16", "avx10_")
_AVX512 = (*_BF16, "avx512_", "avx_vnni", "avx_ne_convert")
_HIDDEN = {Isa.AVX512_BF16: _AMX, Isa.AVX512: _BF16, Isa.AVX2: _AVX512}
"""Prefixes of the features that a tier has not, as torch names them."""

_ONEDNN = {
    Isa.AVX512_BF16: "AVX512_CORE_BF16",
    Isa.AVX512: "AVX512_CORE",
    Isa.AVX2: "AVX2",
}
_ATEN = {Isa.AVX512_BF16: "avx512", Isa.AVX512: "avx512", Isa.AVX2: "avx2"}
_MKL = {Isa.AVX512_BF16: "AVX512", Isa.AVX512: "AVX512", Isa.AVX2: "AVX2"}


def limits(isa: Isa) -> Mapping[str, str]:
    """Returns the environment variables that limit any side to an instruction set."""
    return {
        "HOOKLINE_CPU_ISA": isa.value,
        "ONEDNN_MAX_CPU_ISA": _ONEDNN[isa],
        "ATEN_CPU_CAPABILITY": _ATEN[isa],
        "MKL_ENABLE_INSTRUCTIONS": _MKL[isa],
    }


def peer_limits(isa: Isa) -> Mapping[str, str]:
    """Returns the variables by which torch reports no features beyond a tier."""
    return {
        "PYTHONPATH": str(Path(__file__).parent / "isa_limit"),
        HIDDEN: " ".join(_HIDDEN[isa]),
    }


_AVX2_RATIO = 1.1


def goal_on(isa: Isa, goal: Goal) -> Goal:
    """Returns a row's goal on an instruction set: lower on AVX2 against vLLM.

    Goals of latency, memory and start-up, and those against Hookline itself, are the
    same on every tier.
    """
    is_throughput = goal.is_higher_better and goal.ratio is not None
    if isa is Isa.AVX2 and goal.peer == VLLM and is_throughput:
        return replace(goal, ratio=_AVX2_RATIO)
    return goal
