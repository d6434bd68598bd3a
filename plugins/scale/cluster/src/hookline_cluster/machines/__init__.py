"""Engines on other machines, and the encrypted links to them."""
