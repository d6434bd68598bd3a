"""Processes of Hookline's own code: starting, watching, limiting and ending them."""
