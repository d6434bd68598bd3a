"""Conversion between JSON and structs, with errors that name the field."""

import re
from collections.abc import Mapping
from typing import Annotated, TypeVar

import msgspec

from hookline.exceptions import RequestError

Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""Larger integers are valid JSON, but do not fit into the engine's messages."""

MOST_NAME = 256
Name = Annotated[str, msgspec.Meta(max_length=MOST_NAME)]
"""A short string: errors repeat it."""

T = TypeVar("T")

MALFORMED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Errors of a body that is not JSON, or does not match its struct."""

_MISSING = re.compile(r"Object missing required field `(?P<field>[^`]+)`")
_PLACE = re.compile(
    r"(?P<what>.*) - at (?:`key` in )?`\$\.?(?P<param>[^`]*)`$", re.DOTALL
)
_WORDS = (("`", ""), (" | null", ""), ("Expected ", "expected "))


def encode(message: msgspec.Struct) -> bytes:
    """Returns a struct as JSON."""
    return msgspec.json.encode(message)


def decode(body: bytes, kind: type[T]) -> T:
    """Parses a request's body; ignores fields that the struct does not have.

    Raises:
        RequestError: It is not JSON, or does not match the struct.
    """
    try:
        return msgspec.json.decode(body, type=kind)
    except MALFORMED as error:
        raise request_error(error) from error


def request_error(error: Exception) -> RequestError:
    """Returns what is wrong with a body, of one of the errors in `MALFORMED`."""
    if isinstance(error, msgspec.ValidationError):
        return _shape_error(str(error))
    if isinstance(error, RecursionError):
        return RequestError("the body is nested too deeply")
    return RequestError(f"the body is not valid JSON: {error}")


def convert(value: object, kind: type[T], place: str) -> T:
    """Converts decoded JSON to a struct; ignores fields that it does not have.

    Args:
        value: The decoded JSON.
        kind: The struct.
        place: Where the value stands in the body, such as `tools[0]`.

    Raises:
        RequestError: The value does not match the struct.
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise _shape_error(str(error), place) from error


def convert_query(query: Mapping[str, str], kind: type[T]) -> T:
    """Converts a URL's query to a struct.

    Parameters that it does not have are ignored, unless it forbids unknown fields.

    Raises:
        RequestError: A parameter does not match the struct.
    """
    if issubclass(kind, msgspec.Struct) and _is_strict(kind):
        _refuse_unknown(query, kind)
    try:
        return msgspec.convert(dict(query), kind, strict=False)
    except msgspec.ValidationError as error:
        raise _shape_error(str(error)) from error


def _is_strict(kind: type[msgspec.Struct]) -> bool:
    """Whether a struct forbids fields that it does not have."""
    return kind.__struct_config__.forbid_unknown_fields


def _refuse_unknown(query: Mapping[str, str], kind: type[msgspec.Struct]) -> None:
    known = [field.encode_name for field in msgspec.structs.fields(kind)]
    unknown = [name[:MOST_NAME] for name in query if name not in known]
    if unknown:
        reason = f"{unknown[0]}: unknown parameter; known are {', '.join(known)}"
        raise RequestError(reason, param=unknown[0])


def _shape_error(message: str, place: str = "") -> RequestError:
    match = _PLACE.match(message)
    what, param = (match["what"], match["param"]) if match else (message, "")
    param = ".".join(filter(None, (place, param)))
    missing = _MISSING.match(what)
    if missing:
        param = f"{param}.{missing['field']}" if param else missing["field"]
        return RequestError(f"{param} is missing", param=param)
    for old, new in _WORDS:
        what = what.replace(old, new)
    if not param:
        return RequestError(f"the body: {what}")
    return RequestError(f"{param}: {what}", param=param)
