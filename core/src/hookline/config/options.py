"""Metadata that makes a configuration's fields options, each described only once.

The command line, the YAML file and the keywords of `EngineConfig.from_options` are all
derived from it. Nothing here knows how a command line is parsed.
"""

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import ParamSpec

OPTION = "hookline.option"
SECTION = "hookline.section"

P = ParamSpec("P")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shorthand:
    """A switch that sets a field to a fixed value.

    Attributes:
        flag: Name of the switch, without leading dashes.
    """

    flag: str
    value: object
    help: str


@dataclass(frozen=True, slots=True)
class OptionSpec:
    """Metadata of one field.

    Attributes:
        help: One or two sentences for users.
        flag: Name on the command line, without leading dashes; None derives it from
            the field's name.
        group: Heading in the help; None uses that of the section.
        metavar: Placeholder for the value in the help, usually its unit.
        minimum: Smallest allowed number.
        above: Number that the value must exceed.
        maximum: Largest allowed number.
        infinite: Whether an infinite number is allowed.
        shown_default: Default as the help shows it; None derives it from the field.
        read: Converts text to the value, raising `ValueError` or `ConfigError`; None
            derives it from the field's type.
        read_mapping: Converts a mapping to the value, raising `ConfigError`.
        json: Whether `read` expects JSON.
        single: Whether a mapping is read from one text, not merged from several.
        commas: Whether a tuple's items can also be separated by commas.
        shorthand: A switch that sets the field as well.
    """

    help: str
    _: KW_ONLY
    flag: str | None = None
    group: str | None = None
    metavar: str | None = None
    minimum: float | None = None
    above: float | None = None
    maximum: float | None = None
    infinite: bool = False
    shown_default: str | None = None
    read: Callable[[str], object] | None = None
    read_mapping: Callable[[Mapping[str, object]], object] | None = None
    json: bool = False
    single: bool = False
    commas: bool = False
    shorthand: Shorthand | None = None


def _metadata_of(
    make: Callable[P, OptionSpec],
) -> Callable[P, dict[str, object]]:
    def metadata(*args: P.args, **kwargs: P.kwargs) -> dict[str, object]:
        return {OPTION: make(*args, **kwargs)}

    return metadata


option = _metadata_of(OptionSpec)
"""Returns the metadata that makes a field an option; takes what `OptionSpec` takes."""


def section(group: str) -> dict[str, object]:
    """Returns the metadata of a field whose dataclass has options itself.

    Args:
        group: Heading of these options in the help.
    """
    return {SECTION: group}
