"""Plugins of this process: their kinds, and calls of the chosen ones."""
