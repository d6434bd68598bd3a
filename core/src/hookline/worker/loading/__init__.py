"""Loads models for a worker, and chooses how to compute them."""
