"""What functions return as far as their code tells, without calling them."""

from collections.abc import Callable, Iterator
from dis import Instruction, get_instructions
from types import CodeType, FunctionType

Place = tuple[str, int | None]
"""A file and a line."""

_TEXT = frozenset({"BUILD_STRING", "FORMAT_VALUE", "FORMAT_SIMPLE"})


def returned_class(function: Callable[..., object]) -> tuple[type, Place] | None:
    """Returns the class that a function returns itself, not an instance of it."""
    if not isinstance(function, FunctionType):
        return None
    for value, place in _returned(function.__code__):
        if value.opname == "LOAD_GLOBAL":
            found = function.__globals__.get(value.argval)
            if isinstance(found, type):
                return found, place
    return None


def returned_text(function: FunctionType) -> Place | None:
    """Returns where a function returns text, or is declared to."""
    for value, place in _returned(function.__code__):
        if value.opname in _TEXT or (isinstance(value.argval, str) and _const(value)):
            return place
    if function.__annotations__.get("return") in (str, "str"):
        return function.__code__.co_filename, function.__code__.co_firstlineno
    return None


def taken(function: FunctionType) -> Iterator[str]:
    """Yields the names of what a function takes and does not call."""
    for each in get_instructions(function.__code__):
        is_called = "NULL" in each.argrepr
        if each.opname in ("LOAD_ATTR", "LOAD_GLOBAL") and not is_called:
            yield each.argval


def _const(value: Instruction) -> bool:
    return value.opname in ("LOAD_CONST", "RETURN_CONST")


def _returned(code: CodeType) -> Iterator[tuple[Instruction, Place]]:
    before: Instruction | None = None
    for each in get_instructions(code):
        value = each if each.opname == "RETURN_CONST" else before
        if each.opname in ("RETURN_VALUE", "RETURN_CONST") and value is not None:
            line = value.positions.lineno if value.positions else None
            yield value, (code.co_filename, line)
        before = each
