"""Command-line options derived from the fields of a configuration."""

import dataclasses
import math
import re
import typing
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from pathlib import Path

from hookline.config.options import ConfigOption, options_of
from hookline.config.readers import MULTIPLES, read_label, read_size
from hookline_server.cli.options.option import REPEATABLE, Kind, Option

SHORTHAND = "shorthand"
"""Prefix of the targets of switches that set another option's target."""

_HUMAN = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)([kmgtKMGT])")

_UNITS = (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))


def derived(kind: type, prefix: str, *, group: str = "") -> list[Option]:
    """Returns the options of a configuration's dataclass, in the order of its fields.

    Args:
        kind: A dataclass whose fields are described by `hookline.config.options`.
        prefix: First part of the options' targets.
        group: Heading of options that are in no section.
    """
    return [made for each in options_of(kind) for made in _options(each, prefix, group)]


def whole(text: str) -> int:
    """Reads a whole number, also as `8k` (8000), `8K` (8192) or `1.5m`."""
    if (match := _HUMAN.fullmatch(text)) is not None:
        value = float(match[1]) * MULTIPLES[match[2]]
        if value.is_integer():
            return int(value)
    try:
        return int(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is not a whole number") from error


def number(text: str) -> float:
    """Reads a finite number."""
    try:
        value = float(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is not a number") from error
    if not math.isfinite(value):
        raise ValueError(f"{text!r} is not a finite number")
    return value


def words(text: str) -> list[str]:
    """Reads comma-separated words."""
    found = [word.strip() for word in text.split(",")]
    if not all(found):
        raise ValueError(f"{text!r} has an empty part")
    return found


def _options(source: ConfigOption, prefix: str, group: str) -> Iterator[Option]:
    target = ".".join((prefix, *source.path))
    shown_group = source.group or group
    if (shorthand := source.spec.shorthand) is not None:
        yield Option(
            flag=shorthand.flag,
            target=f"{SHORTHAND}.{target}",
            group=shown_group,
            kind=Kind.FLAG,
            help=shorthand.help,
            constant=shorthand.value,
        )
    kind = _kind(source)
    yield Option(
        flag=source.flag,
        target=target,
        group=shown_group,
        help=_help(source, kind),
        kind=kind,
        parse=_reader(source),
        metavar=source.spec.metavar or _metavar(source, kind),
        choices=tuple(map(str, source.choices or ())),
        default=_shown_default(source),
        is_json=source.is_json,
    )


def _kind(source: ConfigOption) -> Kind:
    (kind, *_) = source.kinds
    origin = typing.get_origin(kind)
    if kind is bool:
        return Kind.SWITCH
    if source.spec.read_mapping is not None:
        return Kind.VALUE
    if origin in (tuple, list):
        return Kind.WORDS if source.spec.commas else Kind.LIST
    return Kind.MAP if origin is dict else Kind.VALUE


def _help(source: ConfigOption, kind: Kind) -> str:
    if kind not in REPEATABLE:
        return source.spec.help
    separated = ", or separated by commas" if source.spec.commas else ""
    return f"{source.spec.help} Can be repeated{separated}."


def _metavar(source: ConfigOption, kind: Kind) -> str | None:
    if source.is_json:
        return "JSON"
    return "KEY=VALUE" if kind is Kind.MAP else None


def _reader(source: ConfigOption) -> Callable[[str], object]:
    if source.read is not None:
        return source.read
    (kind, *_) = source.kinds
    origin = typing.get_origin(kind)
    if origin is dict:
        return read_label
    if origin not in (tuple, list):
        return _reader_of(kind)
    (item, *_) = typing.get_args(kind)
    return _list_reader(item) if source.spec.commas else _reader_of(item)


def _reader_of(kind: object) -> Callable[[str], object]:
    readers: Mapping[object, Callable[[str], object]] = {
        int: whole,
        float: number,
        Path: Path,
    }
    return readers.get(kind, str)


def _list_reader(item: object) -> Callable[[str], object]:
    read = _reader_of(item)
    known = [str(each) for each in item] if _is_enum(item) else None

    def read_list(text: str) -> list[object]:
        found = words(text)
        for word in found:
            if known is not None and word not in known:
                raise ValueError(f"{word!r} is not one of {', '.join(known)}")
        return [read(word) for word in found]

    return read_list


def _is_enum(kind: object) -> typing.TypeGuard[type[Enum]]:
    return isinstance(kind, type) and issubclass(kind, Enum)


def _shown_default(source: ConfigOption) -> str | None:
    if source.spec.shown_default is not None:
        return source.spec.shown_default
    default = source.default
    if default is None or default is dataclasses.MISSING:
        return None
    if source.spec.read is read_size and isinstance(default, int):
        return _size(default)
    if isinstance(default, tuple | list):
        return ",".join(_text(each) for each in default) or None
    return None if isinstance(default, Mapping) else _text(default)


def _text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _size(number_of_bytes: int) -> str:
    for unit, factor in _UNITS:
        if number_of_bytes and number_of_bytes % factor == 0:
            return f"{number_of_bytes // factor}{unit}"
    return str(number_of_bytes)
