"""Structured outputs: grammar backends, and the process that compiles."""
