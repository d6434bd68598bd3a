"""Fault injection for tests: slow lines, killed instances, hanging collectors."""
