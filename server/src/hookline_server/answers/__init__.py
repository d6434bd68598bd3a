"""The engine's outputs in the words of the API, whole and in chunks."""
