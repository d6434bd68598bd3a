"""Finds the requests whose facts the loggers need with an output."""

from collections.abc import Callable, Sequence

from hookline.events import (
    Finished,
    NewTokens,
    Preempted,
    Queued,
    Scheduled,
    StepOutput,
)

Event = Queued | Scheduled | Preempted | NewTokens | Finished


def told_requests(output: StepOutput, listens: Callable[[str], bool]) -> set[int]:
    """Returns the ids of the requests in the events that loggers are told one by one.

    Args:
        output: Output of an engine.
        listens: Whether any logger implements a hook.
    """
    kinds: tuple[tuple[str, Sequence[Event]], ...] = (
        ("requests_queued", output.queued),
        ("requests_scheduled", output.scheduled),
        ("requests_preempted", output.preempted),
        ("tokens_generated", output.new_tokens),
        ("requests_finished", output.finished),
    )
    told: set[int] = set()
    for hook, events in kinds:
        if events and listens(hook):
            told.update(event.request_id for event in events)
    if output.preempted and listens("requests_preempted"):
        others = (event.beneficiary_id for event in output.preempted)
        told.update(each for each in others if each is not None)
    return told
