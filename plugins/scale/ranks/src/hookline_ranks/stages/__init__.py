"""Divides a model's layers among the stages of a pipeline."""
