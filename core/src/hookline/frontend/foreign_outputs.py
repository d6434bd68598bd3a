"""Checks what engines that are not Hookline's own tell of requests.

An engine of a plugin may give anything. What cannot be ends only the request that it is
told of: everything behind this check, and every client, gets what it may rely on. What
it says of its own numbers is held against what it has told of each request.
"""

import math
from array import array
from collections.abc import Container, Iterable
from typing import get_args

from msgspec.structs import asdict, astuple, replace

from hookline.events import Finished, NewTokens, StepEvents, StepOutput
from hookline.finish_cause import Corrupted, FinishCause
from hookline.frontend.accounting import RequestAccounting
from hookline.pooling import VECTORS
from hookline.request import FinishReason, Origin, TokenLogprobs
from hookline.stats.scheduler_stats import SchedulerStats
from hookline_registry import isolate

_KINDS = ("queued", "scheduled", "preempted", "new_tokens", "finished")


def checked(
    output: StepOutput, known: Container[int], vocab_size: int
) -> tuple[StepOutput, dict[int, Corrupted]]:
    """Returns an output in which the requests have ended of events that cannot be.

    The causes by id come with it: the engine must end these requests, too. Events of
    requests that are not `known` do not matter.
    """
    flaws: dict[int, Corrupted] = {}
    lists = {kind: getattr(output.events, kind) for kind in _KINDS}
    for event in (each for some in lists.values() for each in some):
        if event.request_id not in known or event.request_id in flaws:
            continue
        # Even a comparison may raise: what is compared may be of any class.
        if (flaw := isolate(_flaw, event, vocab_size)) is not None:
            what = flaw if isinstance(flaw, str) else "what is of a wrong type"
            cause = Corrupted(f"the engine gave {what}", Origin.ENGINE)
            flaws[event.request_id] = cause
    if not flaws:
        return output, flaws
    for kind, some in lists.items():
        lists[kind] = [each for each in some if each.request_id not in flaws]
    lists["finished"] += [Finished(each, output.at, flaws[each], 0) for each in flaws]
    events = StepEvents(**{**asdict(output.events), **lists})
    return replace(output, events=events), flaws


def audited(stats: SchedulerStats, accounting: RequestAccounting) -> SchedulerStats:
    """Returns a state with what it leaves out or invents as residue.

    A request counts once for each number that is wrong: received, finished, present.
    """
    totals, unheard = stats.totals, accounting.num_unheard
    received = accounting.received - accounting.finished.get(FinishReason.REJECTED, 0)
    received -= unheard  # what was QUEUED, or FINISHED without
    present = accounting.num_in_flight - unheard
    told = stats.running + stats.waiting + sum(stats.held.values())
    residue = abs(totals.received - received) + abs(told - present)
    residue += abs(sum(totals.finished.values()) - (received - present))
    if not residue:
        return stats
    known = replace(totals.residue, requests=totals.residue.requests + residue)
    totals = replace(totals, received=received, residue=known)
    return replace(stats, totals=totals)


def _flaw(event: NewTokens | Finished, vocab_size: int) -> str | None:
    """Returns what cannot be in an event, of whatever kind; None if all can."""
    numbers = [each for each in astuple(event) if isinstance(each, int | float)]
    if not all(each >= 0 for each in numbers):  # false for not-a-numbers, too
        return "a negative number"
    if isinstance(event, NewTokens):
        return _flaw_of_tokens(event, vocab_size)
    return _flaw_of_end(event) if isinstance(event, Finished) else None


def _flaw_of_tokens(event: NewTokens, vocab_size: int) -> str | None:
    if not _are_tokens(event.token_ids, vocab_size):
        return "a token that is not in the vocabulary"
    if event.logprobs is not None and len(event.logprobs) != len(event.token_ids):
        return "log-probabilities of other tokens"
    entries = (*(event.logprobs or ()), *(event.prompt_logprobs or ()))
    if not all(_is_good(each, vocab_size) for each in entries):
        return "log-probabilities that are none"
    return None


def _flaw_of_end(event: Finished) -> str | None:
    if not isinstance(event.cause, get_args(FinishCause)):
        return "an end without a cause"
    vectors = VECTORS.read(event.sections) if event.sections else None
    # The sum is a number only if all are.
    if vectors is not None and not math.isfinite(sum(array("f", vectors.values))):
        return "a vector that is not finite"
    return None


def _is_good(entry: TokenLogprobs, vocab_size: int) -> bool:
    return (
        _are_tokens(entry.token_ids, vocab_size)
        and 0 < len(entry.token_ids) == len(entry.logprobs)
        and all(number < math.inf for number in entry.logprobs)  # nor not-a-number
        and entry.rank > 0
    )


def _are_tokens(token_ids: Iterable[object], vocab_size: int) -> bool:
    return all(type(each) is int and 0 <= each < vocab_size for each in token_ids)
