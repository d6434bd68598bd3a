"""Offline inference: `LLM`, with the prompts that it takes and what it returns."""
