"""Sections of extensions in a configuration, which the extensions themselves check."""

from collections.abc import Mapping

from hookline.exceptions import ConfigError
from hookline.json_options import read_object

OPTION = "extension-config"
POOLER_OPTION = "pooler-config"
STRUCTURED_OUTPUTS_OPTION = "structured-outputs-config"
SPECULATIVE_OPTION = "speculative-config"
DRAFTING = "drafting"
"""Name of the extension that drafts tokens."""


def read_extensions(text: str) -> dict[str, dict[str, object]]:
    """Makes the sections from a JSON object.

    Raises:
        ConfigError: It is not a JSON object, or a section is none.
    """
    return check_extensions(read_object(OPTION, text))


def check_extensions(given: Mapping[str, object]) -> dict[str, dict[str, object]]:
    """Makes the sections from a mapping.

    Raises:
        ConfigError: A section is not a mapping.
    """
    found = {}
    for name, section in given.items():
        if not isinstance(section, Mapping):
            raise ConfigError(OPTION, f"the options of {name} must be an object")
        found[name] = dict(section)
    return found


def read_pooler(text: str) -> dict[str, object]:
    """Makes the section of pooling from a JSON object.

    Raises:
        ConfigError: It is not a JSON object.
    """
    return read_object(POOLER_OPTION, text)


def read_structured_outputs(text: str) -> dict[str, object]:
    """Makes the section of structured outputs from a JSON object.

    Raises:
        ConfigError: It is not a JSON object.
    """
    return read_object(STRUCTURED_OUTPUTS_OPTION, text)


def read_speculative(text: str) -> dict[str, object]:
    """Makes the section of speculative decoding from a JSON object.

    Raises:
        ConfigError: It is not a JSON object.
    """
    return read_object(SPECULATIVE_OPTION, text)
