"""Bounds of texts, turns of clients, and a tokenizer's trial in another process."""
