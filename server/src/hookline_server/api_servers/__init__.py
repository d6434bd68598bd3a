"""Several API servers on one port: a parent owns the engines, children serve."""
