"""What engines of a kind tell: each thing always, sometimes or never, with why."""

from collections import Counter

from hookline.tells import Tells
from hookline_metrics.engine_tells import EngineTells
from hookline_testing.conformance.subject import Subject


def check(subject: Subject) -> None:
    """Has each of `Tells` declared once, and a reason for what is not always told."""
    made = subject.create()
    if made is None:
        return
    if not isinstance(made, EngineTells):
        kind = type(made).__name__
        subject.fault(f"it gives {kind}, not an EngineTells", subject.factory)
        return
    declared = Counter([*made.always, *made.sometimes, *made.never])
    for each in Tells:
        if (count := declared[each]) != 1:
            subject.fault(f"Tells.{each.name} is declared {count} times, not once")
    for each, why in {**made.sometimes, **made.never}.items():
        if not why or why.endswith("."):
            subject.fault(f"{each}: say why in a clause without a full stop: {why!r}")
