"""The `hookline` command."""

from hookline_server.cli.main import main

__all__ = ["main"]
