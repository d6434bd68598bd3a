"""Scheduling: which requests compute how many tokens in each step."""
