"""Checks of the values in options that are written as JSON."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TypeVar

from hookline.exceptions import ConfigError
from hookline_registry.spelling import did_you_mean

E = TypeVar("E", bound=StrEnum)


def check_keys(
    option: str, given: Mapping[str, object], known: Iterable[str], *, hint: str = ""
) -> None:
    """Raises `ConfigError` for a key that is not known.

    Args:
        option: The command's option.
        given: The JSON object.
        known: The allowed keys.
        hint: Sentence that ends the message if no known key is close.
    """
    names = list(known)
    for key in given:
        if key not in names:
            close = did_you_mean(key, names) or f". {hint}".rstrip(". ")
            detail = f"unknown key {key!r}; available: {', '.join(names)}{close}"
            raise ConfigError(option, detail)


def check_whole(
    option: str, name: str, value: object, *, maximum: int | None = None
) -> None:
    """Raises `ConfigError` unless the value is a whole number from 1 to the maximum."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(option, f"{name} must be a whole number, not {value!r}")
    if value < 1:
        raise ConfigError(option, f"{name} must be at least 1, not {value}")
    if maximum is not None and value > maximum:
        raise ConfigError(option, f"{name} must be at most {maximum}, not {value}")


def check_seconds(option: str, name: str, value: object) -> None:
    """Raises `ConfigError` unless the value is a positive, finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(option, f"{name} must be a number, not {value!r}")
    if not 0 < value < float("inf"):
        raise ConfigError(option, f"{name} must be above 0 and finite, not {value}")


def one_of(option: str, name: str, kind: type[E], value: object) -> E:
    """Returns the member of an enumeration with this value.

    Raises:
        ConfigError: No member has the value.
    """
    if value not in list(kind):
        raise ConfigError(
            option, f"{name} must be one of {', '.join(kind)}, not {value!r}"
        )
    return kind(str(value))


def refuse_unknown(
    whose: str, option: str, given: Mapping[str, object], known: Iterable[str]
) -> None:
    """Checks the given names against the known ones of a plugin or method.

    Raises:
        ConfigError: A name is unknown.
    """
    names = list(known)
    for name in given:
        if name not in names:
            there = ", ".join(names) or "none"
            detail = f"{whose} has no option {name!r}; it has {there}"
            raise ConfigError(option, f"{detail}{did_you_mean(name, names)}")
