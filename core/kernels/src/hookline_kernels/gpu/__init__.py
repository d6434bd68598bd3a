"""Kernels for GPUs, written in Triton; each launches on the current device.

Nothing waits for the device or reads a value from it, and no grid depends on one, so
that launches with equal shapes can be captured in a CUDA graph.
"""
