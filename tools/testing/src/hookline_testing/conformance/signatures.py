"""Whether hooks are annotated as they are specified."""

import inspect
from collections.abc import Callable

from hookline import hookspecs
from hookline_registry import Failure, isolate
from hookline_testing.conformance.subject import Subject
from hookline_testing.hook_types import types_of


def check_signatures(subject: Subject) -> None:
    """Compares the annotations of each hook with those of its specification."""
    for hook in subject.registry.hooks_of(subject.registered):
        check_signature(subject, hook, getattr(subject.plugin, hook, None))


def check_signature(subject: Subject, hook: str, function: object) -> None:
    """Compares the annotations of one implementation with its specification."""
    if not callable(function):
        return
    expected = types_of(getattr(hookspecs, hook))
    found = isolate(_annotations, function)
    if isinstance(found, Failure):
        return  # types that exist for checkers only
    for name, kind in found.items():
        wanted = expected.get(name, object)
        if name == "return" or wanted is object or kind == wanted:
            continue
        subject.fault(
            f"{hook} gets {_named(wanted)} as {name!r}, not {_named(kind)}: annotate "
            "it so",
            function,
        )


def _annotations(function: Callable[..., object]) -> dict[str, object]:
    return inspect.get_annotations(function, eval_str=True)


def _named(kind: object) -> str:
    return getattr(kind, "__name__", str(kind))
