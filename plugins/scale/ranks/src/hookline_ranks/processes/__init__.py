"""Ranks: worker processes that share a model, and what passes between them."""
