"""Engines as actors on a Ray cluster: the data-parallel backend `ray`."""
