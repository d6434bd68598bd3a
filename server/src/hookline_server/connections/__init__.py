"""Connections of clients: their number, their time limits and malformed requests."""
