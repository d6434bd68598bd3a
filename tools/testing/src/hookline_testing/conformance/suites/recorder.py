"""Recorders: hooks without a lane."""

from hookline.config import EngineConfig
from hookline.frontend.observing import RecorderContext
from hookline_registry import Failure, isolate
from hookline_testing.conformance.subject import Subject
from hookline_testing.conformance.suites.logger import tell


def check(subject: Subject) -> None:
    """Makes a recorder and tells it all that can happen."""
    made = subject.create(context=RecorderContext(config=EngineConfig()))
    if made is None:
        return
    registered = isolate(subject.registry.register, made, "made")
    if isinstance(registered, Failure):
        subject.fault(str(registered.error))
        return
    tell(subject, ["made"])
