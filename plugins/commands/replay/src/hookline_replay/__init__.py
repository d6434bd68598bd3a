"""Runs the scheduler again from a recording, and compares each decision."""
