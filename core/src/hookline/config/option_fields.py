"""The options of a configuration, derived from its fields: checks and keywords."""

import dataclasses
import math
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType

import msgspec

from hookline.config.options import OPTION, SECTION, OptionSpec
from hookline.did_you_mean import did_you_mean
from hookline.exceptions import ConfigError

T = typing.TypeVar("T")


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
    def kinds(self) -> tuple[object, ...]:
        """Types of the value; None is left out of a union."""
        members = (
            typing.get_args(self.annotation)
            if _is_union(self.annotation)
            else (self.annotation,)
        )
        return tuple(each for each in members if each is not NoneType)

    @property
    def choices(self) -> type[StrEnum] | None:
        """The enumeration of the allowed words, or None if the option has none."""
        (kind, *_) = self.kinds
        return kind if _is_enum(kind) else None

    def convert(self, value: object) -> object:
        """Converts a keyword's value to the field's type.

        Raises:
            ConfigError: The value is of another type.
        """
        if isinstance(value, Mapping) and self.spec.read_mapping is not None:
            return self.spec.read_mapping(value)
        if isinstance(value, str) and self.spec.read is not None:
            return _read(self.flag, self.spec.read, value)
        if isinstance(value, str) and typing.get_origin(self.annotation) is tuple:
            value = (value,)
        try:
            return msgspec.convert(value, self.annotation)
        except msgspec.ValidationError as error:
            raise ConfigError(
                self.flag, f"must be {self._expected}, not {value!r}"
            ) from error

    def check(self, value: object) -> None:
        """Raises `ConfigError` for a value that is out of range or no choice."""
        if (choices := self.choices) is not None:
            if value is not None and value not in list(choices):
                raise ConfigError(self.flag, f"must be {self._expected}, not {value!r}")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            _check_range(self.flag, self.spec, value)

    @property
    def _expected(self) -> str:
        if (choices := self.choices) is not None:
            return f"one of {', '.join(choices)}"
        return " or ".join(_words(kind) for kind in self.kinds)


def options_of(kind: type) -> tuple[ConfigOption, ...]:
    """Returns the options of a configuration's dataclass and of its sections."""
    return _options_of(kind)


def check_options(config: "_Dataclass") -> None:
    """Checks the options that a dataclass holds itself against their metadata.

    Raises:
        ConfigError: A value is out of range or no choice.
    """
    for each in options_of(type(config)):
        if len(each.path) == 1:
            each.check(getattr(config, each.path[0]))


def build(kind: type[T], options: Mapping[str, object]) -> T:
    """Makes a configuration from keywords named after the command line's flags.

    Raises:
        ConfigError: A keyword is unknown, or a value does not fit.
    """
    known = {each.keyword: each for each in options_of(kind)}
    given = _expanded(known, options)
    nested: dict[str, object] = {}
    for keyword, value in given.items():
        if keyword not in known:
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
        if each.default is dataclasses.MISSING and each.path[0] not in nested:
            raise ConfigError(each.flag, "is required")
    return msgspec.convert(nested, kind)


def put(nested: dict[str, object], path: Sequence[str], value: object) -> None:
    """Stores a value under its path; sections are made as needed."""
    for name in path[:-1]:
        inner = nested.setdefault(name, {})
        nested = typing.cast("dict[str, object]", inner)
    nested[path[-1]] = value


class _Dataclass(typing.Protocol):
    __dataclass_fields__: typing.ClassVar[dict[str, dataclasses.Field[typing.Any]]]


@cache
def _options_of(kind: type) -> tuple[ConfigOption, ...]:
    return tuple(_walk(kind, (), ""))


def _walk(kind: type, path: tuple[str, ...], group: str) -> Iterator[ConfigOption]:
    hints = typing.get_type_hints(kind)
    for each in dataclasses.fields(kind):
        here = (*path, each.name)
        spec = each.metadata.get(OPTION)
        if isinstance(spec, OptionSpec):
            yield ConfigOption(
                path=here,
                flag=spec.flag or each.name.replace("_", "-"),
                annotation=hints[each.name],
                default=_default(each),
                group=spec.group or group,
                spec=spec,
            )
        elif SECTION in each.metadata:
            yield from _walk(hints[each.name], here, each.metadata[SECTION])


def _default(field: dataclasses.Field[object]) -> object:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _expanded(
    known: Mapping[str, ConfigOption], options: Mapping[str, object]
) -> dict[str, object]:
    given = dict(options)
    for keyword, each in known.items():
        shorthand = each.spec.shorthand
        if shorthand and given.pop(shorthand.flag.replace("-", "_"), False):
            given.setdefault(keyword, shorthand.value)
    return given


def _read(flag: str, read: Callable[[str], object], text: str) -> object:
    try:
        return read(text)
    except ValueError as error:
        raise ConfigError(flag, str(error)) from error


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


def _is_union(kind: object) -> bool:
    return isinstance(kind, UnionType) or typing.get_origin(kind) is typing.Union


_WORDS: Mapping[object, str] = {
    bool: "true or false",
    float: "a number",
    int: "a whole number",
    str: "text",
}


def _words(kind: object) -> str:
    origin = typing.get_origin(kind)
    if origin is tuple:
        (item, *_) = typing.get_args(kind)
        return f"a list of {', '.join(item)}" if _is_enum(item) else "a list"
    if origin is dict:
        return "a mapping"
    return _WORDS.get(kind, f"a {kind.__name__}" if isinstance(kind, type) else "valid")
