"""Kernels, each with a plain torch reference; knows no engine."""

from hookline_kernels.metadata import PagedMetadata
from hookline_kernels.paged_attention import paged_attention, write_cache

__all__ = ["PagedMetadata", "paged_attention", "write_cache"]
