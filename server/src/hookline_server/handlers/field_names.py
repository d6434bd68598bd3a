"""Names of fields in errors, as endpoints name the same parameters differently."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from hookline.exceptions import RequestError
from hookline.structured_outputs import PARAM


@contextmanager
def fields_named(names: Mapping[str, str]) -> Iterator[None]:
    """Replaces the names of fields in an error by the endpoint's own names."""
    try:
        yield
    except RequestError as error:
        old = error.param or ""
        if old in names:
            error.param = names[old]
            message = str(error)
            if message.startswith((f"{old} ", f"{old}:")):
                error.args = (names[old] + message.removeprefix(old),)
        raise


@contextmanager
def format_named(field: str) -> Iterator[None]:
    """Replaces the names of other fields for grammars in an error by this field."""
    try:
        yield
    except RequestError as error:
        if error.param in (PARAM, "response_format"):
            error.param = field
            error.args = (f"{field}: {str(error).removeprefix(f'{PARAM}: ')}",)
        raise
