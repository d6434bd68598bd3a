"""Options that users write as a JSON object, for the engine and its plugins."""

import json
from collections.abc import Iterable, Mapping

from hookline.exceptions import ConfigError


def read_object(option: str, text: str) -> dict[str, object]:
    """A JSON object, of a command's option.

    Raises:
        ConfigError: It is none.
    """
    try:
        given = json.loads(text)
    except ValueError as error:
        raise ConfigError(option, f"{text!r} is not JSON: {error}") from error
    if not isinstance(given, dict):
        raise ConfigError(option, f"{text!r} is not a JSON object")
    return given


def refuse_unknown(
    whose: str, option: str, given: Mapping[str, object], known: Iterable[str]
) -> None:
    """Raises `ConfigError`, of a command's option, for a name that is not known."""
    names = list(known)
    for name in given:
        if name not in names:
            raise ConfigError(
                option, f"{whose} has no option {name!r}; it has {', '.join(names)}"
            )
