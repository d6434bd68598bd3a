"""Hostile clients of every kind, and a soak of a server between them and others."""
