"""Writes packages of plugins, for `hookline plugins new`."""
