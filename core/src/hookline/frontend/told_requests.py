"""Finds the requests whose facts the loggers need with an output."""

from collections.abc import Callable, Mapping

from hookline.events import StepOutput

REQUEST_HOOKS: Mapping[str, str] = {
    "queued": "requests_queued",
    "scheduled": "requests_scheduled",
    "preempted": "requests_preempted",
    "new_tokens": "tokens_generated",
    "finished": "requests_finished",
}
"""The hook that tells loggers of the events in a field of an output."""
OUTPUT_HOOKS = frozenset(
    (*REQUEST_HOOKS.values(), "cache_changed", "step_finished", "state_changed")
)
"""All hooks that are called because of an output."""


def told_requests(output: StepOutput, listens: Callable[[str], bool]) -> set[int]:
    """Returns the ids of the requests in the events that loggers are told one by one.

    Args:
        output: Output of an engine.
        listens: Whether any logger implements a hook.
    """
    told: set[int] = set()
    for name, hook in REQUEST_HOOKS.items():
        if (events := getattr(output.events, name)) and listens(hook):
            told.update(event.request_id for event in events)
    if output.events.preempted and listens("requests_preempted"):
        others = (event.beneficiary_id for event in output.events.preempted)
        told.update(each for each in others if each is not None)
    return told
