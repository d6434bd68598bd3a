"""Names of fields in errors: endpoints call the same things differently."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from hookline.exceptions import RequestError
from hookline.structured_outputs import PARAM


@contextmanager
def fields_named(names: Mapping[str, str]) -> Iterator[None]:
    """Replaces names of fields in an error by those that the endpoint has for them."""
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
    """Replaces the names that a grammar has elsewhere in an error by a field."""
    try:
        yield
    except RequestError as error:
        if error.param in (PARAM, "response_format"):
            error.param = field
            error.args = (f"{field}: {str(error).removeprefix(f'{PARAM}: ')}",)
        raise
