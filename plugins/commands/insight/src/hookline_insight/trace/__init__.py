"""Draws recordings as traces for Perfetto and Chrome, a window of steps at a time."""
