"""Loads the plugins that a configuration names."""
