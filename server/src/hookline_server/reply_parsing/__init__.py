"""Parsed replies: content, reasoning and calls of functions.

Parsers are plugins; here are their protocols, and tools for reading most formats piece
by piece.
"""
