"""Kernels for GPUs, written in Triton; each launches on the current device.

Nothing here waits for the device or asks it for a value, and no grid depends on one:
what is launched twice with the same shapes can be captured in a CUDA graph.
"""
