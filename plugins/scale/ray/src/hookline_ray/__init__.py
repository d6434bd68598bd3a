"""Engines, or their ranks, as actors on a Ray cluster."""
