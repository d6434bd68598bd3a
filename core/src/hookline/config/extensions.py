"""Sections of extensions in a configuration, which the extensions themselves check."""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from hookline.exceptions import ConfigError

OPTION = "extension-config"
POOLER_OPTION = "pooler-config"
STRUCTURED_OUTPUTS_OPTION = "structured-outputs-config"
SPECULATIVE_OPTION = "speculative-config"
DRAFTING = "drafting"
"""Name of the extension that drafts tokens."""
GRAMMARS = "grammars"
"""Name of the extension that follows grammars."""
PIPELINE = "pipeline"
"""Name of the extension that divides steps among the stages of a pipeline."""
FAIR = "fair"
"""Name of the extension that takes tenants in turn."""
KV_TRANSFER_OPTION = "kv-transfer-config"
KV_TRANSFER = "kv_transfer"
"""Name of the extension that moves KV blocks by a connector."""


@runtime_checkable
class ExtensionSection(Protocol):
    """An extension's own type of its section, which the core keeps as a mapping."""

    def section(self) -> dict[str, object]:
        """Returns the keys that users would write."""


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
