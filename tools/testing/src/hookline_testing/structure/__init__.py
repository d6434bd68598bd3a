"""Measures the shape of the source tree: sizes, closures, calls, names.

It reads the sources, and imports what it measures only to count calls.
"""
