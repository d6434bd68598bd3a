"""Executors: what the factory says, and a run of an engine."""

from hookline.engine_setup.executor_factory import ExecutorFactory
from hookline_testing.conformance.model_run import run
from hookline_testing.conformance.subject import Subject


def check(subject: Subject) -> None:
    """Takes the factory and runs an engine with its executor."""
    made = subject.create()
    if made is None:
        return
    if not isinstance(made, ExecutorFactory):
        kind = type(made).__name__
        subject.fault(f"it gives {kind}, not an ExecutorFactory", subject.factory)
        return
    run(subject, executor=subject.name)
