"""Faults on purpose: slow lines, killed instances, stuck collectors; for tests."""
