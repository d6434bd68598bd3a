"""Walks a table in one test that lists the faults of all rows."""

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

Test = Callable[..., None]
_FAULTS = (
    AssertionError,
    AttributeError,
    LookupError,
    SyntaxError,
    TypeError,
    ValueError,
)
"""What a faulty row may raise."""


def for_each_row(
    names: str, rows: Iterable[Any], *, ids: Callable[..., object] | None = None
) -> Callable[[Test], Test]:
    """Calls a test once for each row; a case of pytest for each would take longer.

    For tests that read what does not change: fixtures are the same for all rows.

    Args:
        names: Parameters that a row is the values of, separated by commas.
        rows: Values of these parameters: tuples if there are several.
        ids: Names a row in the error from its values, which are its name by default.

    Raises:
        ValueError: There are no rows.
    """
    given = [name.strip() for name in names.split(",")]
    every = [(row,) if len(given) == 1 else tuple(row) for row in rows]
    row_name = ids or (lambda *values: values[0] if len(values) == 1 else values)
    if not every:
        raise ValueError(f"no rows: {names}")

    def walk(test: Test) -> Test:
        signature = inspect.signature(test)

        @functools.wraps(test)
        def walked(**fixtures: object) -> None:
            faults = []
            for values in every:
                try:
                    test(**dict(zip(given, values, strict=True)), **fixtures)
                except _FAULTS as error:
                    named = row_name(*values)
                    error.add_note(f"of the row {named}")
                    faults.append(error)
            if faults:
                raise ExceptionGroup(f"{len(faults)} of {len(every)} rows", faults)

        others = [
            each for each in signature.parameters.values() if each.name not in given
        ]
        walked.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        return walked

    return walk
