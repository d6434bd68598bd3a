"""Prompts of the load: made at random, or read from files."""
