"""Kernels for CPUs and GPUs, each with a torch reference."""

from hookline_kernels.attention import (
    paged_attention,
    reference_attention,
    write_cache,
)
from hookline_kernels.attention_layer import Attend, AttentionLayer
from hookline_kernels.choosing import ChosenAttention, choose_attention
from hookline_kernels.failure import KernelError
from hookline_kernels.importing import import_compiled
from hookline_kernels.layout import new_keys, new_values
from hookline_kernels.metadata import TREE_BITS, AttentionMetadata, TreeMask
from hookline_kernels.platform import CPU, Platform

__all__ = [
    "CPU",
    "TREE_BITS",
    "Attend",
    "AttentionLayer",
    "AttentionMetadata",
    "ChosenAttention",
    "KernelError",
    "Platform",
    "TreeMask",
    "choose_attention",
    "import_compiled",
    "new_keys",
    "new_values",
    "paged_attention",
    "reference_attention",
    "write_cache",
]
