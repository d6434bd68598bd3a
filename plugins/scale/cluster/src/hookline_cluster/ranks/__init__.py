"""Ranks of an engine that a backend starts on other machines, and their links."""
