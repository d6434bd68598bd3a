"""Sampling: from logits to tokens, all requests of a step at once."""
