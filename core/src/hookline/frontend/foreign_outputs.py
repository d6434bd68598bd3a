"""Checks what engines that are not Hookline's own tell of requests.

An engine of a plugin may give anything. What cannot be ends only the request that it is
told of: everything behind this check, and every client, gets what it may rely on.
"""

import math
from array import array
from collections.abc import Container, Iterable, Sequence
from typing import get_args

from msgspec.structs import astuple, replace

from hookline.events import Finished, NewTokens, Preempted, Queued, Scheduled
from hookline.events import StepEvents, StepOutput
from hookline.finish_cause import Corrupted, FinishCause
from hookline.pooling import VECTORS
from hookline.request import Origin, TokenLogprobs
from hookline_registry import Failure, isolate

_CAUSES = get_args(FinishCause)
_Event = Queued | Scheduled | Preempted | NewTokens | Finished


def checked(
    output: StepOutput, known: Container[int], vocab_size: int
) -> tuple[StepOutput, dict[int, Corrupted]]:
    """Returns an output without events that cannot be.

    Args:
        output: The output of an engine.
        known: Ids of the requests whose events matter.
        vocab_size: Number of token ids.

    Returns:
        The output, in which the requests of such events have ended, and why they have,
        by their ids: the engine must end them, too.
    """
    events, flaws = output.events, dict[int, Corrupted]()
    lists = (
        events.queued,
        events.scheduled,
        events.preempted,
        events.new_tokens,
        events.finished,
    )
    for event in (each for some in lists for each in some):
        if event.request_id in known and event.request_id not in flaws:
            # Even a comparison may raise: what is compared may be of any class.
            flaw = isolate(_flaw, event, vocab_size)
            if isinstance(flaw, Failure):
                flaw = flaw.summary
            if flaw:
                detail = f"the engine gave {flaw}"
                flaws[event.request_id] = Corrupted(detail, Origin.ENGINE)
    if not flaws:
        return output, flaws
    queued, scheduled, preempted, new_tokens, finished = (
        [each for each in some if each.request_id not in flaws] for some in lists
    )
    ended = [Finished(each, output.at, flaws[each], 0) for each in flaws]
    left = StepEvents(
        queued=queued,
        scheduled=scheduled,
        preempted=preempted,
        new_tokens=new_tokens,
        finished=[*finished, *ended],
        evictions=events.evictions,
        cache_changes=events.cache_changes,
    )
    return replace(output, events=left), flaws


def _flaw(event: _Event, vocab_size: int) -> str:
    """Returns what cannot be in an event; empty if all can."""
    numbers = [each for each in astuple(event) if isinstance(each, int | float)]
    if not all(each >= 0 for each in numbers):  # false for not-a-numbers, too
        return "a negative number"
    if isinstance(event, NewTokens):
        return _flaw_of_tokens(event, vocab_size)
    if isinstance(event, Finished):
        if not isinstance(event.cause, _CAUSES):
            return "an end without a cause"
        vectors = VECTORS.read(event.sections) if event.sections else None
        # The sum is a number only if all are.
        if vectors is not None and not math.isfinite(sum(array("f", vectors.values))):
            return "a vector that is not finite"
    return ""


def _flaw_of_tokens(event: NewTokens, vocab_size: int) -> str:
    if not _are_tokens(event.token_ids, vocab_size):
        return "a token that is not in the vocabulary"
    entries = event.logprobs
    if entries is not None and len(entries) != len(event.token_ids):
        return "log-probabilities of other tokens"
    for some in (entries, event.prompt_logprobs):
        if some is not None and not _are_logprobs(some, vocab_size):
            return "log-probabilities that are none"
    return ""


def _are_logprobs(entries: Sequence[TokenLogprobs], vocab_size: int) -> bool:
    return all(
        _are_tokens(each.token_ids, vocab_size)
        and 0 < len(each.token_ids) == len(each.logprobs)
        and all(number < math.inf for number in each.logprobs)  # nor not-a-number
        and each.rank > 0
        for each in entries
    )


def _are_tokens(token_ids: Iterable[object], vocab_size: int) -> bool:
    return all(type(each) is int and 0 <= each < vocab_size for each in token_ids)
