"""Compiles an engine's kernels in other processes, ahead of it or while it serves."""
