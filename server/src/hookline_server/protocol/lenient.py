"""Accepts numbers and booleans that clients send as strings, where that is unambiguous.

vLLM takes them, so clients send them: `"max_tokens": "5"`.
"""

import math
import re
from collections.abc import Callable, Mapping
from functools import cache

import msgspec
from msgspec import inspect

Convert = Callable[[object], object]
"""Returns the converted value, or the value itself if it cannot be converted."""

_NUMBER = re.compile(r"[+-]?\d{1,32}(\.\d{0,32})?([eE][+-]?\d{1,3})?", re.ASCII)
_BOOLEANS = {
    **dict.fromkeys(("true", "t", "yes", "y", "on", "1"), True),
    **dict.fromkeys(("false", "f", "no", "n", "off", "0"), False),
}


def with_numbers(body: bytes, kind: type) -> bytes | None:
    """Returns a body whose strings have become the numbers that its fields expect.

    It reads only the fields of the body that can hold numbers.

    Args:
        body: The body, valid JSON or not.
        kind: The struct that it is for.

    Returns:
        The new body; None if there is nothing to convert.
    """
    try:
        fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        converted = {
            name: raw
            for name, convert in _converters(kind).items()
            if name in fields and (raw := _converted(fields[name], convert))
        }
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return msgspec.json.encode(fields | converted) if converted else None


def _converted(raw: msgspec.Raw, convert: Convert) -> msgspec.Raw | None:
    """Returns a field's new value, or None if it stays."""
    given = bytes(raw)
    if given.startswith(b"[") and b'"' not in given and b"." not in given:
        return None  # such as a million token ids
    value: object = msgspec.json.decode(given)
    before, after = msgspec.json.encode(value), msgspec.json.encode(convert(value))
    return None if before == after else msgspec.Raw(after)


@cache
def _converters(kind: type) -> Mapping[str, Convert]:
    """Returns the conversions of a struct's fields that can have numbers."""
    struct = inspect.type_info(kind)
    assert isinstance(struct, inspect.StructType)
    found = {each.encode_name: _converter(each.type) for each in struct.fields}
    return {name: convert for name, convert in found.items() if convert is not None}


def _converter(expected: inspect.Type) -> Convert | None:
    """Returns the conversion to a type; None if it has no numbers, or has strings."""
    match expected:
        case inspect.Metadata(type=noted):
            return _converter(noted)
        case inspect.UnionType(types=types):
            rest = [each for each in types if not isinstance(each, inspect.NoneType)]
            return _converter(rest[0]) if len(rest) == 1 else None
        case inspect.ListType(item_type=item):
            return _of_list(_converter(item))
        case inspect.DictType(value_type=value):
            return _of_values(_converter(value))
        case inspect.StructType(cls=cls):
            return _of_fields(_converters(cls))
        case _:
            return _SCALARS.get(type(expected))


def _integer(value: object) -> object:
    number = _number(value)
    if isinstance(number, float) and number.is_integer() and abs(number) < 2**63:
        return int(number)
    return number


def _number(value: object) -> object:
    if not isinstance(value, str) or not _NUMBER.fullmatch(text := value.strip()):
        return value
    if text.lstrip("+-").isdigit():
        integer = int(text)  # exact beyond 2**53
        return integer if abs(integer) < 2**63 else value
    number = float(text)
    return number if math.isfinite(number) else value


def _boolean(value: object) -> object:
    return _BOOLEANS.get(value.lower(), value) if isinstance(value, str) else value


_SCALARS: Mapping[type[inspect.Type], Convert] = {
    inspect.IntType: _integer,
    inspect.FloatType: _number,
    inspect.BoolType: _boolean,
}


def _of_list(convert: Convert | None) -> Convert | None:
    if convert is None:
        return None
    return lambda value: (
        [convert(each) for each in value] if isinstance(value, list) else value
    )


def _of_values(convert: Convert | None) -> Convert | None:
    if convert is None:
        return None
    return lambda value: (
        {name: convert(each) for name, each in value.items()}
        if isinstance(value, dict)
        else value
    )


def _of_fields(converters: Mapping[str, Convert]) -> Convert | None:
    if not converters:
        return None

    def convert(value: object) -> object:
        if not isinstance(value, dict):
            return value
        return {
            name: converters[name](each) if name in converters else each
            for name, each in value.items()
        }

    return convert
