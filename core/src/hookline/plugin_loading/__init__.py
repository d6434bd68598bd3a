"""Loads the plugins that a configuration names, and no others."""
