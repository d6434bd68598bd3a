"""Describes a model by the JSON files of its folder; imports no torch."""
