"""Supervision of engines: when one is stalled or has ended, and what comes of it."""
