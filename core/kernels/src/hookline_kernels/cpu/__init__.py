"""Kernels compiled by numba for the processors of this machine."""
