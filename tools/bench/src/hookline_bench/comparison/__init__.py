"""Compares the results of two runs of a benchmark."""
