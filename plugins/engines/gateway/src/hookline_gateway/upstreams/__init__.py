"""Servers behind a proxy: their health and load, the choice of one, and its answer."""
