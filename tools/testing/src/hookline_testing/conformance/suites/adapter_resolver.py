"""Adapter resolvers: they leave alone what they do not know."""

from pathlib import Path

from hookline_registry import Failure
from hookline_testing.conformance.subject import Subject

_HOSTILE = ("", "../../etc", "/etc", "a\x00b", "x" * 5000)
"""Names from clients that no adapter has."""


def check(subject: Subject) -> None:
    """Asks for adapters of names that no resolver should know."""
    resolve = subject.registry.maker(subject.registered, subject.kind.hook)
    if resolve is None:
        subject.fault(f"it has no hook {subject.kind.hook}")
        return
    for name in _HOSTILE:
        found = subject.call(subject.kind.hook, resolve, context=name)
        if found is None or isinstance(found, Failure):
            continue
        if not isinstance(found, Path):
            kind = type(found).__name__
            subject.fault(f"it returns {kind}, not a path or None", subject.factory)
        else:
            subject.fault(
                f"it finds {name[:20]!r}: None leaves it alone", subject.factory
            )
