"""Kernels for CPUs and GPUs, each with a torch reference.

Names are imported on first access, because processes that compute nothing use
`hookline_kernels.runtime`, which needs no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
    from hookline_kernels.metadata import (
        TREE_BITS,
        AttentionMetadata,
        LayerMetadata,
        TreeMask,
    )
    from hookline_kernels.platform import CPU, Platform

__all__ = [
    "CPU",
    "TREE_BITS",
    "Attend",
    "AttentionLayer",
    "AttentionMetadata",
    "ChosenAttention",
    "KernelError",
    "LayerMetadata",
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

_MODULES = {
    "Attend": "attention_layer",
    "AttentionLayer": "attention_layer",
    "AttentionMetadata": "metadata",
    "CPU": "platform",
    "ChosenAttention": "choosing",
    "KernelError": "failure",
    "LayerMetadata": "metadata",
    "Platform": "platform",
    "TREE_BITS": "metadata",
    "TreeMask": "metadata",
    "choose_attention": "choosing",
    "import_compiled": "importing",
    "new_keys": "layout",
    "new_values": "layout",
    "paged_attention": "attention",
    "reference_attention": "attention",
    "write_cache": "attention",
}


def __getattr__(name: str) -> object:
    if (module := _MODULES.get(name)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)
