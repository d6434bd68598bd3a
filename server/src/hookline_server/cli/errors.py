"""Errors that end a command with one line."""


class UsageError(Exception):
    """The command line or the configuration file is wrong; exit status 2."""


class CommandFailedError(Exception):
    """The command could not do its work, for the reason given; exit status 1."""
