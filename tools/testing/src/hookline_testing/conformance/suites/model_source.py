"""Model sources: they leave alone what they do not know."""

from hookline.config import EngineConfig
from hookline_registry import Failure
from hookline_testing.conformance.subject import Subject


def check(subject: Subject) -> None:
    """Asks for a model that is installed, and needs no source."""
    make = subject.registry.maker(subject.registered, subject.kind.hook)
    if make is None:
        subject.fault(f"it has no hook {subject.kind.hook}")
        return
    made = subject.call(subject.kind.hook, make, context=EngineConfig())
    if made is not None and not isinstance(made, Failure):
        kind = type(made).__name__
        subject.fault(
            f"it gives {kind} for an installed model: None leaves it alone",
            subject.factory,
        )
