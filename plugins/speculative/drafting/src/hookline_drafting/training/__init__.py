"""Training of draft models: `hookline train-draft`."""

from hookline_server.cli.command import Command

COMMAND = Command(
    "train a draft model", "hookline_drafting.training.command", completes=True
)
"""`hookline train-draft`: trains a draft model."""
