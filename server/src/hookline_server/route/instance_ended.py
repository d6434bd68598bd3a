"""The one error that ends a demo."""


class InstanceEndedError(Exception):
    """An instance has ended by itself; the message tells which, and why."""
