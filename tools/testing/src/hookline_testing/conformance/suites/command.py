"""Commands: a line for the help, and a module that runs."""

from importlib import import_module

from hookline_registry import Failure
from hookline_server.cli.command import Command
from hookline_testing.conformance.subject import Subject


def check(subject: Subject) -> None:
    """Imports the command's module, as running it does."""
    made = subject.create()
    if made is None:
        return
    if not isinstance(made, Command):
        kind = type(made).__name__
        subject.fault(f"it gives {kind}, not a Command", subject.factory)
        return
    if not made.summary or "\n" in made.summary:
        subject.fault("its summary is not one line for the help", subject.factory)
    module = subject.call(f"the import of {made.module}", import_module, made.module)
    if not isinstance(module, Failure) and not callable(getattr(module, "run", None)):
        subject.fault(
            f"{made.module} has no function run(argv) -> exit status", subject.factory
        )
