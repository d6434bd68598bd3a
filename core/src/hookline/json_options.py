"""Options that are written as a JSON object."""

import json
from collections.abc import Iterable, Mapping

from hookline.did_you_mean import did_you_mean
from hookline.exceptions import ConfigError


def parse_object(text: str) -> dict[str, object]:
    """Parses a JSON object.

    Raises:
        ValueError: It is something else.
    """
    try:
        given: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{text!r} is not JSON: {error}") from error
    if not isinstance(given, dict):
        raise ValueError(f"{text!r} is not a JSON object")  # noqa: TRY004
    return given


def read_object(option: str, text: str) -> dict[str, object]:
    """Parses the JSON object of a command's option.

    Raises:
        ConfigError: It is something else.
    """
    try:
        return parse_object(text)
    except ValueError as error:
        raise ConfigError(option, str(error)) from error


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
            detail = f"{whose} has no option {name!r}; it has {', '.join(names)}"
            raise ConfigError(option, f"{detail}{did_you_mean(name, names)}")
