"""Turns vLLM's outputs into the engine's events."""

from collections.abc import Callable, Iterable, Mapping, MutableSequence, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from hookline.events import (
    Finished,
    NewTokens,
    Preempted,
    Queued,
    Scheduled,
    StepEvents,
)
from hookline.finish_cause import (
    Aborted,
    Embedded,
    Failed,
    FinishCause,
    LengthReached,
    StoppedByString,
    StoppedByToken,
)
from hookline.frontend.request_account import RequestAccount
from hookline_vllm.notices import Outputs
from hookline_vllm.shapes import (
    PREEMPTED,
    QUEUED,
    SCHEDULED,
    OutputShape,
    each_of,
)

UNKNOWN_TOKEN = -1


@dataclass(slots=True)
class Rounds:
    """The events of one iteration, in an order in which they can be counted.

    The accounting takes an output's preemptions before what it schedules. vLLM tells of
    a request only with its next tokens: by then it may have been preempted and
    scheduled again, which takes a round for each.

    Most requests get nothing but their next token. It is counted at once, without an
    event, unless `tells_tokens`.

    Attributes:
        tells_tokens: Whether somebody wants to know which tokens they are.
        rounds: The events, of which the first round has most; empty without any.
        intervals: The ns before each token that has been counted.
        ended: vLLM's ids of the requests that have ended.
        at: When the step ended, on the engine's clock.
        received_at: When its last outputs were processed; 0 without any.
    """

    tells_tokens: bool = True
    rounds: list[StepEvents] = field(default_factory=list)
    intervals: MutableSequence[int] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    at: int = 0
    received_at: int = 0
    _ends: list[tuple[list[Finished], int]] = field(default_factory=list)

    def add(
        self,
        notice: Outputs,
        known: Mapping[str, RequestAccount],
        find: Callable[[str], RequestAccount | None],
    ) -> None:
        """Adds what outputs tell of requests.

        Args:
            notice: The outputs.
            known: The engine's requests by vLLM's ids.
            find: Returns one that is not among them; None if nobody knows it.
        """
        self.received_at, stopped = notice.at, notice.stopped
        at = nanoseconds(notice.timestamp)
        # Of a second step, events may precede that are not counted yet.
        is_counted = not self.tells_tokens and self.at in (0, at)
        self.at, counted = at, self.intervals.append
        for output, tokens in zip(notice.outputs, notice.tokens, strict=True):
            name = output.request_id
            if (account := known.get(name) or find(name)) is None:
                continue
            is_stopped = bool(stopped) and name in stopped
            if is_stopped or output.finish_reason is not None:
                self._add(output, tokens, account, is_stopped=is_stopped)
                self.ended.append(name)
            elif output.events or not tokens:
                self._add(output, tokens, account, is_stopped=False)
            elif is_counted and len(tokens) == 1 and account.timeline.output_tokens:
                counted(account.timeline.next_token(at))
            else:
                new = NewTokens(account.request_id, at, tokens)
                self._round(0).new_tokens.append(new)

    def correct(self, reasons: Sequence[str]) -> None:
        """Has a stop string in a request's last tokens end it, not their number.

        Args:
            reasons: Why requests ended for their clients, in order.
        """
        if len(reasons) != len(self._ends):
            return
        for (finished, index), reason in zip(self._ends, reasons, strict=True):
            end = finished[index]
            if reason == "stop" and isinstance(end.cause, LengthReached):
                finished[index] = replace(end, cause=StoppedByString(""))

    def _add(
        self,
        output: OutputShape,
        tokens: Sequence[int],
        account: RequestAccount,
        *,
        is_stopped: bool,
    ) -> None:
        at = self.at
        number, was_scheduled = 0, False
        request_id = account.request_id
        for event in each_of(output.events):
            when = nanoseconds(event.timestamp)
            kind = int(event.type)
            if kind == PREEMPTED and was_scheduled:
                number, was_scheduled = number + 1, False
            events = self._round(number)
            if kind == QUEUED:
                queued = Queued(request_id, when, account.group.prompt_tokens)
                events.queued.append(queued)
            elif kind == SCHEDULED:
                events.scheduled.append(self._scheduled(output, account, when, number))
                was_scheduled = True
            elif kind == PREEMPTED:
                events.preempted.append(_preempted(account, when))
        last = self._round(number)
        if tokens:
            last.new_tokens.append(NewTokens(request_id, at, tokens))
        if output.finish_reason is not None or is_stopped:
            cause = StoppedByString("") if is_stopped else cause_of(output)
            total = account.timeline.output_tokens + len(tokens)
            self._ends.append((last.finished, len(last.finished)))
            last.finished.append(Finished(request_id, at, cause, total))

    def _scheduled(
        self, output: OutputShape, account: RequestAccount, at: int, number: int
    ) -> Scheduled:
        is_resumed = number > 0 or account.timeline.was_scheduled
        found, local, external = output.prefill_stats, 0, 0
        if found is not None:
            local = found.num_local_cached_tokens
            external = found.num_external_cached_tokens
        return Scheduled(account.request_id, at, local, external, 0, is_resumed)

    def _round(self, number: int) -> StepEvents:
        while len(self.rounds) <= number:
            self.rounds.append(_events())
        return self.rounds[number]


def cause_of(output: OutputShape) -> FinishCause:
    """Returns why the engine ended a request."""
    reason = str(output.finish_reason)
    stop = output.stop_reason
    if output.pooling_output is not None and reason in {"stop", "length"}:
        return Embedded()
    if reason == "stop":
        if isinstance(stop, str):
            return StoppedByString(stop)
        last = output.new_token_ids[-1] if output.new_token_ids else UNKNOWN_TOKEN
        return StoppedByToken(last if stop is None else stop)
    if reason == "length":
        return LengthReached()
    if reason == "abort":
        return Aborted("engine")
    return StoppedByString(reason) if reason == "repetition" else Failed(reason)


def ended_by(reason: str) -> FinishCause:
    """Returns the cause of an end of which only vLLM's reason is known."""
    causes: Mapping[str, FinishCause] = {
        "stop": StoppedByString(""),
        "repetition": StoppedByString("repetition"),
        "length": LengthReached(),
        "abort": Aborted("engine"),
    }
    return causes.get(reason) or Failed(reason)


def nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)


def aborts(accounts: Iterable[RequestAccount], at: int, by: str) -> StepEvents:
    """Returns the ends of requests that were aborted for their client."""
    cause = Aborted(by)
    ends = [
        Finished(each.request_id, at, cause, each.timeline.output_tokens)
        for each in accounts
    ]
    events = _events()
    events.finished.extend(ends)
    return events


def _preempted(account: RequestAccount, at: int) -> Preempted:
    """Only of a request that decodes is known how much had been computed."""
    prompt, output = account.group.prompt_tokens, account.timeline.output_tokens
    computed = prompt + output - 1 if output else 0
    return Preempted(
        account.request_id,
        at,
        computed,
        prompt_tokens=prompt,
        output_tokens=output,
    )


def _events() -> StepEvents:
    return StepEvents(queued=[], scheduled=[], preempted=[], new_tokens=[], finished=[])
