"""What an engine does right now, above all one that hangs."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from hookline.clock import NANOSECONDS
from hookline_insight.company import HeldBlocks, prefills, size_of
from hookline_insight.explainer import Explainer
from hookline_insight.wording import MOST_NAMES, Words, duration, safe
from hookline_recording import RecordedStep
from hookline_recording.reading import stalled_seconds

LEAST_SECONDS = 1.0
"""Without a move for so long, and ten times as long as its steps take, it hangs."""
_TIMES_EXPECTED = 10


class Condition(StrEnum):
    """How an engine is."""

    WORKS = "works"
    IDLE = "idle"
    HANGS = "hangs"
    FAILED = "failed"
    CLOSED = "closed"
    KILLED = "killed"


@dataclass(frozen=True, slots=True)
class Standstill:
    """What a recording tells of its engine's last moment.

    Attributes:
        condition: How the engine is.
        since: For how long it has been so, ns.
        step: The step in flight, if there is one.
    """

    explainer: Explainer
    condition: Condition
    since: int
    step: RecordedStep | None

    @property
    def hang(self) -> str:
        """Says that it hangs, as part of another answer; empty if it does not."""
        if self.condition is not Condition.HANGS:
            return ""
        return f"The engine {self._sentence()}"

    def lines(self) -> Iterator[str]:
        """Says it: a sentence, then the requests."""
        words, recording = Words(self.explainer), self.explainer.recording
        header = recording.header
        who = f"engine {header.engine_index} (process {header.pid}, "
        who += f"{safe(header.model)})"
        yield f"{who} {self._sentence()}"
        if self.step is not None:
            yield from self._computed(self.step, words)
        yield from self._waiting(words)

    def fields(self) -> dict[str, object]:
        """Returns it for machines."""
        header, words = self.explainer.recording.header, Words(self.explainer)
        step = self.step
        return {
            "engine_index": header.engine_index,
            "pid": header.pid,
            "condition": self.condition,
            "told": "\n".join(self.lines()),
            "since_ns": self.since,
            "step": None if step is None else step.number,
            "requests": []
            if step is None
            else [
                {"request_id": each, "name": words.name(each), "tokens": tokens}
                for each, tokens in step.request_tokens.items()
            ],
            "waiting": [
                {"request_id": each, "name": words.name(each), "since_ns": since}
                for each, since in waiting(self.explainer)
            ],
        }

    def _sentence(self) -> str:
        length = duration(self.since)
        recording = self.explainer.recording
        if self.condition is Condition.FAILED:
            return f"has failed: {safe(recording.failure or '')}."
        if self.condition is Condition.CLOSED:
            return "was closed."
        step = self.step
        if step is None:
            doing = "between two steps"
        else:
            doing = f"in step {step.number}, which began {length} ago"
            if step.published is None and step.computed is not None:
                doing = f"after step {step.number}, whose result is there"
        if self.condition is Condition.KILLED:
            return (
                f"was killed {doing}."
                if step is None
                else f"was killed in step {step.number} or after it."
            ) + f" The last that is known of it is of {self._last_sign()}."
        if self.condition is Condition.IDLE:
            return "is idle: it has no request."
        if self.condition is Condition.WORKS:
            return f"works: it is {doing}."
        return f"hangs {doing}; it has not moved for {length}."

    def _last_sign(self) -> str:
        """When it wrote its last record."""
        explainer = self.explainer
        seconds = explainer.recording.wall_at(explainer.until) / NANOSECONDS
        return time.strftime("%F %T UTC", time.gmtime(seconds))

    def _computed(self, step: RecordedStep, words: Words) -> Iterator[str]:
        """Yields what the step in flight computes, and what it was to take."""
        prompts = prefills(step)
        tokens = step.request_tokens
        order = sorted(tokens, key=lambda each: -tokens[each])
        parts = [
            f"{tokens[each]} prompt tokens of {words.name(each)}"
            if each in prompts
            else f"{words.name(each)}'s next token"
            for each in order[:MOST_NAMES]
        ]
        if len(order) > MOST_NAMES:
            parts.append(f"{len(order) - MOST_NAMES} more requests")
        if parts:
            costs = self.explainer.costs
            expected = ""
            if costs.is_fitted:
                usual = duration(round(costs.expected_ns(size_of(step))))
                expected = f"; by its work it takes {usual}"
            yield f"  It computes {', '.join(parts)}{expected}."

    def _waiting(self, words: Words) -> Iterator[str]:
        """Yields who waits, for what and since when."""
        found = waiting(self.explainer)
        if not found:
            return
        steps = self.explainer.steps
        obstacle = steps[-1].obstacle if steps else ""
        reason = words.obstacle(obstacle) if obstacle else "waiting for the next step"
        who = "1 request is" if len(found) == 1 else f"{len(found)} requests are"
        yield f"  {who} {reason}; the longest:"
        for request_id, since in found[:MOST_NAMES]:
            waited = duration(self.explainer.until - since)
            yield f"    {words.name(request_id)}, for {waited}"
        if obstacle == "kv_blocks":
            held = HeldBlocks(steps).after(len(steps) - 1)
            holder = max(held, key=held.__getitem__, default=None)
            if holder is not None:
                yield f"    {words.name(holder)} has {held[holder]} blocks"


def waiting(explainer: Explainer) -> list[tuple[int, int]]:
    """Returns (request, since when) of those that wait, the longest first."""
    found = []
    for request_id, request in explainer.recording.requests.items():
        if request.finished is not None:
            continue
        last_run = max((each.at for each in request.scheduled), default=-1)
        last_lost = max((each.at for each in request.preempted), default=-1)
        if last_lost > last_run:
            found.append((request_id, last_lost))
        elif last_run < 0 and not request.steps:
            facts = request.facts
            since = request.queued_at or (0 if facts is None else facts.at)
            found.append((request_id, since))
    return sorted(found, key=lambda each: each[1])


def standstill(explainer: Explainer, *, is_live: bool, now: int) -> Standstill:
    """Tells how an engine is, by its ring; `now` is the monotonic clock, ns."""
    recording = explainer.recording
    steps, state = explainer.steps, recording.state
    last = recording.records[-1] if recording.records else None
    flying = next((each for each in steps[-4:] if each.published is None), None)
    since = state.busy_since or state.at
    if recording.failure is not None:
        return Standstill(explainer, Condition.FAILED, 0, flying)
    if type(last).__name__ == "Ended":
        return Standstill(explainer, Condition.CLOSED, 0, None)
    if not is_live:
        length = max(0, explainer.until - since)
        return Standstill(explainer, Condition.KILLED, length, flying)
    if not state.open_requests and flying is None:
        return Standstill(explainer, Condition.IDLE, now - state.at, None)
    waited = stalled_seconds(state, recording.header, now)
    expected = LEAST_SECONDS
    if flying is not None and explainer.costs.is_fitted:
        usual = explainer.costs.expected_ns(size_of(flying)) / NANOSECONDS
        expected = max(expected, _TIMES_EXPECTED * usual)
    condition = Condition.HANGS if waited > expected else Condition.WORKS
    return Standstill(explainer, condition, max(0, now - since), flying)
