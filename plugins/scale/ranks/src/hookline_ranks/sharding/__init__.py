"""Divides a model's weights among ranks."""
