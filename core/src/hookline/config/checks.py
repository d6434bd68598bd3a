"""Checks that several configurations share."""

from hookline.exceptions import ConfigError


def check_positive(option: str, value: int | None) -> None:
    """Raises `ConfigError` for a value below 1; None means that it is not set."""
    if value is not None and value < 1:
        raise ConfigError(option, f"must be at least 1, not {value}")
