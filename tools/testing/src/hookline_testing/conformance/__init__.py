"""What Hookline expects of a plugin, for the tests of its author.

`assert_conforms(kind, name)` loads an installed plugin as a server does, makes what it
provides and calls it as the engine would. Each fault is a sentence with the author's
line.
"""

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec

from hookline import hookspecs
from hookline.frozen import EMPTY
from hookline.plugins.kinds import KINDS
from hookline_registry import PluginRegistry, RegistryError
from hookline_registry.spelling import unknown
from hookline_testing.conformance.signatures import check_signatures
from hookline_testing.conformance.subject import Subject
from hookline_testing.conformance.threads import check_threads

__all__ = ["ConformanceError", "assert_conforms", "faults_of"]


class ConformanceError(AssertionError):
    """A plugin has faults.

    Attributes:
        faults: A sentence for each.
    """

    def __init__(self, kind: str, name: str, faults: tuple[str, ...]) -> None:
        lines = "\n".join(f"- {fault}" for fault in faults)
        super().__init__(f"the {kind} {name!r} does not conform:\n{lines}")
        self.faults = faults


def assert_conforms(
    kind: str, name: str, *, options: Mapping[str, object] = EMPTY
) -> None:
    """Raises `ConformanceError` if an installed plugin has faults.

    Args:
        kind: Name of its kind, such as `logger`.
        name: Name of its entry point.
        options: Options without which it cannot be made.
    """
    if faults := faults_of(kind, name, options=options):
        raise ConformanceError(kind, name, faults)


def faults_of(
    kind: str, name: str, *, options: Mapping[str, object] = EMPTY
) -> tuple[str, ...]:
    """Returns a sentence for each fault of an installed plugin.

    Args:
        kind: Name of its kind.
        name: Name of its entry point.
        options: Options without which it cannot be made.

    Raises:
        ValueError: There is no such kind.
    """
    kinds = {each.name: each for each in KINDS}
    if kind not in kinds:
        raise ValueError(unknown("kind", kind, sorted(kinds)))
    registry = PluginRegistry("hookline", hookspecs)
    try:
        registered = registry.load(kinds[kind], name)
    except RegistryError as error:
        return (" ".join(str(error).split()),)
    subject = Subject(kinds[kind], name, registry, registered, options)
    check_signatures(subject)
    suite = f"{__name__}.suites.{kind}"
    if not subject.faults and find_spec(suite) is not None:
        with check_threads(subject):
            import_module(suite).check(subject)
    return tuple(subject.faults)
