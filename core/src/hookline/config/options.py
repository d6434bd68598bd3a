"""Options of a configuration: fields of its dataclasses, each described only once.

The command line, the YAML file and the keywords of `EngineConfig.from_options` are all
derived from the fields. Nothing here knows how a command line is parsed.
"""

import dataclasses
import math
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, MISSING, dataclass
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType

import msgspec

from hookline.config.extensions import ExtensionSection
from hookline.config.readers import read_object
from hookline.exceptions import ConfigError
from hookline_registry.spelling import did_you_mean

T = typing.TypeVar("T")
P = typing.ParamSpec("P")

_OPTION = "hookline.option"
_SECTION = "hookline.section"
_INSTALLED = "hookline.installed_sections"


class _Section(typing.Protocol):
    """A section's dataclass, with the heading of its options in the help."""

    group: typing.ClassVar[str]


Sections = Mapping[str, type[_Section]]


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
    """Describes the option that sets a field of a configuration.

    Attributes:
        help: One or two sentences for users.
        default: The field's default; without one and a factory the option is required.
        repr: Whether the value may be shown.
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
        read_mapping: Converts a mapping to the value, raising `ConfigError`; the text
            is then a JSON object.
        json: Whether `read` expects JSON.
        commas: Whether a tuple's items can also be separated by commas.
        shorthand: A switch that sets the field as well.
    """

    help: str
    _: KW_ONLY
    default: object = dataclasses.field(default_factory=lambda: MISSING)
    default_factory: Callable[[], object] | None = None
    repr: bool = True
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
    commas: bool = False
    shorthand: Shorthand | None = None


def _field_of(make: Callable[P, OptionSpec]) -> Callable[P, typing.Any]:
    def field(*args: P.args, **kwargs: P.kwargs) -> object:
        spec = make(*args, **kwargs)
        factory: typing.Any = spec.default_factory or MISSING
        return dataclasses.field(
            default=spec.default,
            default_factory=factory,
            repr=spec.repr,
            metadata={_OPTION: spec},
        )

    return field


option = _field_of(OptionSpec)
"""Makes a field of a dataclass an option; takes what `OptionSpec` takes."""


def section(group: str, kind: Callable[[], T]) -> T:
    """Makes a field whose dataclass has options itself.

    Args:
        group: Heading of these options in the help.
        kind: The dataclass; its defaults are the field's.
    """
    return dataclasses.field(default_factory=kind, metadata={_SECTION: group})


def installed(find: Callable[[], Sections]) -> dict[str, typing.Any]:
    """Makes a field of sections by their names, which are found when options are read.

    Args:
        find: Returns the dataclass of each section, by its name.
    """
    return dataclasses.field(default_factory=dict, metadata={_INSTALLED: find})


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigOption:
    """An option of a configuration.

    Attributes:
        path: Names of the fields that lead to the value.
        flag: Name on the command line, without leading dashes.
        annotation: Type of the field.
        default: Value if the option is not set; `dataclasses.MISSING` if it must be.
        group: Heading in the help.
    """

    path: tuple[str, ...]
    flag: str
    annotation: object
    default: object
    group: str
    spec: OptionSpec

    @property
    def keyword(self) -> str:
        """Name as a keyword argument and as a key of a YAML file."""
        return self.flag.replace("-", "_")

    @property
    def is_json(self) -> bool:
        """Whether its text is JSON."""
        return self.spec.json or self.spec.read_mapping is not None

    @property
    def kinds(self) -> tuple[object, ...]:
        """Types of the value; None is left out of a union."""
        kind = self.annotation
        is_union = (
            isinstance(kind, UnionType) or typing.get_origin(kind) is typing.Union
        )
        members = typing.get_args(kind) if is_union else (kind,)
        return tuple(each for each in members if each is not NoneType)

    @property
    def choices(self) -> type[StrEnum] | None:
        """The enumeration of the allowed words, or None if the option has none."""
        (kind, *_) = self.kinds
        return kind if _is_enum(kind) else None

    @property
    def read(self) -> Callable[[str], object] | None:
        """Converts text, raising `ValueError` or `ConfigError`; None by its type."""
        return self.spec.read if self.spec.read_mapping is None else self._read_json

    def convert(self, value: object) -> object:
        """Converts a keyword's value to the field's type.

        Raises:
            ConfigError: The value is of another type.
        """
        if isinstance(value, ExtensionSection):
            value = value.section()
        if isinstance(value, Mapping) and self.spec.read_mapping is not None:
            return self.spec.read_mapping(value)
        if isinstance(value, str) and self.read is not None:
            try:
                return self.read(value)
            except ValueError as error:
                raise ConfigError(self.flag, str(error)) from error
        if isinstance(value, str) and typing.get_origin(self.annotation) is tuple:
            value = (value,)
        try:
            return msgspec.convert(value, self.annotation)
        except msgspec.ValidationError as error:
            raise self._unexpected(value) from error

    def check(self, value: object) -> None:
        """Raises `ConfigError` for a value that is out of range or no choice."""
        if (choices := self.choices) is not None:
            if value is not None and value not in list(choices):
                raise self._unexpected(value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            _check_range(self.flag, self.spec, value)

    def _read_json(self, text: str) -> object:
        assert self.spec.read_mapping is not None
        return self.spec.read_mapping(read_object(self.flag, text))

    def _unexpected(self, value: object) -> ConfigError:
        words = (
            [f"one of {', '.join(self.choices)}"]
            if self.choices is not None
            else map(_words, self.kinds)
        )
        return ConfigError(self.flag, f"must be {' or '.join(words)}, not {value!r}")


def options_of(kind: type) -> tuple[ConfigOption, ...]:
    """Returns the options of a configuration's dataclass and of its sections."""
    return _options_of(kind, _installed(kind))


def check_options(config: "_Dataclass") -> None:
    """Checks the options that a dataclass holds itself.

    Raises:
        ConfigError: A value is out of range or no choice.
    """
    for each in _options_of(type(config), ()):
        if len(each.path) == 1:
            each.check(getattr(config, each.path[0]))


def build(
    kind: type[T],
    options: Mapping[str, object],
    explain: Callable[[str], str | None] = lambda _: None,
) -> T:
    """Makes a configuration from keywords named after the command line's flags.

    Args:
        kind: The configuration's dataclass.
        options: Values by keyword.
        explain: Returns what is wrong with the flag of an unknown option, if it knows.

    Raises:
        ConfigError: A keyword is unknown, or a value does not fit.
    """
    known = {each.keyword: each for each in options_of(kind)}
    given = _expanded(known, options)
    nested: dict[str, object] = {}
    for keyword, value in given.items():
        if keyword not in known:
            flag = keyword.replace("_", "-")
            if (reason := explain(flag)) is not None:
                raise ConfigError(flag, reason)
            hint = did_you_mean(keyword, known)
            raise ConfigError(keyword, f"unknown option{hint}")
        put(nested, known[keyword].path, known[keyword].convert(value))
    return assemble(kind, nested)


def assemble(kind: type[T], nested: Mapping[str, object]) -> T:
    """Makes a configuration from values nested like its sections.

    Raises:
        ConfigError: An option is missing, or a value does not fit.
    """
    for each in options_of(kind):
        if each.default is MISSING and each.path[0] not in nested:
            raise ConfigError(each.flag, "is required")
    values = dict(nested)
    for (field, name), section in _installed(kind):
        found = typing.cast("dict[str, object]", values.get(field, {}))
        if name in found:
            values[field] = {**found, name: msgspec.convert(found[name], section)}
    return msgspec.convert(values, kind)


def put(nested: dict[str, object], path: Sequence[str], value: object) -> None:
    """Stores a value under its path; sections are made as needed."""
    for name in path[:-1]:
        inner = nested.setdefault(name, {})
        nested = typing.cast("dict[str, object]", inner)
    nested[path[-1]] = value


class _Dataclass(typing.Protocol):
    __dataclass_fields__: typing.ClassVar[dict[str, dataclasses.Field[typing.Any]]]


_Installed = tuple[tuple[tuple[str, str], type[_Section]], ...]
"""Dataclasses of installed sections, by their field and their name."""


def _installed(kind: type) -> _Installed:
    return tuple(
        ((each.name, name), section)
        for each in dataclasses.fields(kind)
        if _INSTALLED in each.metadata
        for name, section in each.metadata[_INSTALLED]().items()
    )


@cache
def _options_of(kind: type, sections: _Installed) -> tuple[ConfigOption, ...]:
    found = list(_walk(kind, (), ""))
    for path, section in sections:
        found += _walk(section, path, section.group)
    return tuple(found)


def _walk(kind: type, path: tuple[str, ...], group: str) -> Iterator[ConfigOption]:
    hints = typing.get_type_hints(kind)
    for each in dataclasses.fields(kind):
        here = (*path, each.name)
        spec = each.metadata.get(_OPTION)
        if isinstance(spec, OptionSpec):
            factory = spec.default_factory
            yield ConfigOption(
                path=here,
                flag=spec.flag or each.name.replace("_", "-"),
                annotation=hints[each.name],
                default=spec.default if factory is None else factory(),
                group=spec.group or group,
                spec=spec,
            )
        elif _SECTION in each.metadata:
            yield from _walk(hints[each.name], here, each.metadata[_SECTION])


def _expanded(
    known: Mapping[str, ConfigOption], options: Mapping[str, object]
) -> dict[str, object]:
    given = dict(options)
    for keyword, each in known.items():
        shorthand = each.spec.shorthand
        if shorthand and given.pop(shorthand.flag.replace("-", "_"), False):
            given.setdefault(keyword, shorthand.value)
    return given


def _check_range(flag: str, spec: OptionSpec, value: float) -> None:
    bounds = (spec.minimum, spec.above, spec.maximum)
    if bounds == (None, None, None):
        return
    is_wrong = (
        (spec.minimum is not None and not value >= spec.minimum)
        or (spec.above is not None and not value > spec.above)
        or (spec.maximum is not None and not value <= spec.maximum)
        or (math.isinf(value) and not spec.infinite)
    )
    if is_wrong:
        finite = " and finite" if math.isinf(value) else ""
        raise ConfigError(flag, f"must be {_range(spec)}{finite}, not {value:g}")


def _range(spec: OptionSpec) -> str:
    if spec.minimum is not None and spec.maximum is not None:
        return f"{spec.minimum:g} to {spec.maximum:g}"
    parts = (
        ("at least", spec.minimum),
        ("above", spec.above),
        ("at most", spec.maximum),
    )
    return " and ".join(f"{word} {at:g}" for word, at in parts if at is not None)


def _is_enum(kind: object) -> typing.TypeGuard[type[StrEnum]]:
    return isinstance(kind, type) and issubclass(kind, StrEnum)


_WORDS: Mapping[object, str] = {
    bool: "true or false",
    float: "a number",
    int: "a whole number",
    str: "text",
}


def _words(kind: object) -> str:
    if typing.get_origin(kind) is tuple:
        (item, *_) = typing.get_args(kind)
        return f"a list of {', '.join(item)}" if _is_enum(item) else "a list"
    if typing.get_origin(kind) is dict:
        return "a mapping"
    return _WORDS.get(kind, f"a {kind.__name__}" if isinstance(kind, type) else "valid")
