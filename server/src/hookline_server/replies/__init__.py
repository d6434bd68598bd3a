"""Reads the text of replies with the parsers that the server was started with."""
