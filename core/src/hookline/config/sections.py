"""Sections of a configuration that installed distributions bring, with their options.

A section is a frozen dataclass whose fields are options. The core never reads one: its
owner does, with `of`, in whatever process it is.
"""

from collections.abc import Container, Mapping
from typing import TYPE_CHECKING, ClassVar, Self, cast

import msgspec

from hookline.plugins.calling import hook_of
from hookline.plugins.kinds import CONFIG_SECTION
from hookline_registry import installed

if TYPE_CHECKING:  # which has sections
    from hookline.config.engine import EngineConfig

_SECTIONS = {
    "background-compiling": "serve-while-compiling",
    "cluster": "autoscale data-parallel- load-balancing ray-address",
    "hub": "download-dir offline revision",
    "kv-events": "kv-events-config",
    "lora": "enable-lora lora- max-cpu-loras max-lora",
    "metrics": "exclude-metrics histogram-buckets include-metrics max-tenants metrics- "
    "show-hidden-metrics- tenant",
    "process-engine": "engine-restart on-engine-stall step-timeout",
    "recording": "flight-recorder- record stall-seconds",
    "simulated": "simulated-",
}
"""The beginnings of our sections' flags, by their distributions."""


class ConfigSection:
    """Base of sections.

    Attributes:
        key: Name of the section's entry point, and its key in `EngineConfig.sections`.
        group: Heading of its options in the help.
        is_of_machine: Whether engines of one server may differ in it, because their
            machines have options of their own.
    """

    key: ClassVar[str]
    group: ClassVar[str]
    is_of_machine: ClassVar[bool] = False
    __slots__ = ()

    @classmethod
    def of(cls, config: "EngineConfig") -> Self:
        """Returns the section of a configuration: its defaults if nothing was set.

        Raises:
            ConfigError: A value that has come from another process does not fit.
        """
        found = config.sections.get(cls.key, {})
        return found if isinstance(found, cls) else msgspec.convert(found, cls)

    def check(self, config: "EngineConfig") -> None:
        """Checks the section against the rest of the configuration.

        Raises:
            ConfigError: An option cannot be combined with another one.
        """

    def of_process(self, number: int) -> Self:
        """Returns the section of an engine's process that replaces another."""
        del number
        return self

    def derived(self, config: "EngineConfig") -> Mapping[str, object]:
        """Returns fields of `EngineConfig` that are no options and follow from this."""
        del config
        return {}


def installed_sections(
    among: Container[str] | None = None,
) -> dict[str, type[ConfigSection]]:
    """Returns the installed sections, by their keys; imports them.

    Args:
        among: Keys of the only sections to import; None imports all.

    Raises:
        RegistryError: One is broken, or two distributions claim a key.
    """
    return {
        each.name: cast("type[ConfigSection]", hook_of(CONFIG_SECTION, each.name)())
        for each in installed(CONFIG_SECTION.group)
        if among is None or each.name in among
    }


def missing_distribution(flag: str) -> str | None:
    """Returns what an option lacks that no installed distribution has.

    Args:
        flag: Name of the option, without leading dashes; `no-` may precede it.

    Returns:
        A clause that names the distribution; None if it would not help.
    """
    present = {each.distribution for each in installed(CONFIG_SECTION.group)}
    for distribution, starts in _SECTIONS.items():
        name = f"hookline-{distribution}"
        if flag.removeprefix("no-").startswith(tuple(starts.split())):
            lacks = f"requires the distribution {name}, which is not installed or not "
            return None if name in present else f"{lacks}allowed"
    return None
