"""Conversion of the engine's outputs to API responses and stream chunks."""
