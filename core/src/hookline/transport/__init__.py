"""Transports of commands to an engine and of its outputs back."""
