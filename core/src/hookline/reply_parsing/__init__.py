"""Parsed replies: content, reasoning and calls of functions.

Parsers are plugins; the protocols are here, and what most formats need to be read piece
by piece.
"""
