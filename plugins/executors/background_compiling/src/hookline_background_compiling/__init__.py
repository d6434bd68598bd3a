"""Serves with torch while a process compiles an engine's kernels, or compiles ahead."""
