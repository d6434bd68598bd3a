"""Why requests were not admitted at each moment, and who held what they needed."""

import sys
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from hookline_insight.account import Cause, Share
from hookline_insight.company import HeldBlocks, Holders, most
from hookline_recording import RecordedStep, Recording
from hookline_recording.costs import apportion


class Obstruction(NamedTuple):
    """Why a plan admitted no more requests.

    Attributes:
        since: Begin of planning: who comes later was not considered.
        at: When the plan was there, ns.
        step_index: Index of its step; None if no step could be planned.
    """

    since: int
    at: int
    obstacle: str
    step_index: int | None


class Obstructions:
    """What kept requests from being admitted, in the order of time."""

    def __init__(self, recording: Recording) -> None:
        self._steps: Sequence[RecordedStep] = recording.steps
        self._held = HeldBlocks(self._steps)
        self._all = sorted(
            [*_of_steps(self._steps), *_between_steps(recording)],
            key=lambda each: each.at,
        )
        self._times = [each.at for each in self._all]

    def moments(self, begin: int, end: int) -> list[int]:
        """Returns the moments within an interval at which a plan changed the reason."""
        first, last = (bisect_right(self._times, at) for at in (begin, end - 1))
        return self._times[first:last]

    def reasons(self) -> Iterator[tuple[int, str]]:
        """Yields (when, why) no more requests were admitted from then on, if any."""
        for each in self._all:
            yield each.at, each.obstacle

    def shares(self, queued_at: int, begin: int, end: int) -> list[Share] | None:
        """Tells what a request that waits has waited for, without a plan in between.

        Returns:
            None if no plan has been made since it was queued.
        """
        length = end - begin
        at = bisect_right(self._times, begin) - 1
        if at < 0 or self._all[at].since < queued_at:
            return None
        last = self._all[at]
        if not last.obstacle:
            return [Share(Cause.ENGINE, length)]
        return divided(Cause(last.obstacle), self._holders(last), length)

    def _holders(self, last: Obstruction) -> Holders:
        if last.step_index is None:
            return ()
        step = self._steps[last.step_index]
        if last.obstacle == Cause.KV_BLOCKS:
            return most(self._held.after(last.step_index))
        if last.obstacle in (Cause.TOKEN_BUDGET, Cause.SHARE):
            return most(step.request_tokens)
        if last.obstacle == Cause.BATCH_SLOTS:
            return most(dict.fromkeys(step.request_ids or (), 1))
        return ()


def _of_steps(steps: Sequence[RecordedStep]) -> Iterator[Obstruction]:
    for index, step in enumerate(steps):
        if (planned := step.planned) is None:
            continue
        since = planned.at
        if step.published is not None:
            since = step.published.started_at
        yield Obstruction(since, planned.at, step.obstacle, index)


def _between_steps(recording: Recording) -> Iterator[Obstruction]:
    """Yields what kept the engine from planning a step at all, also for who came then.

    It tries again all the time.
    """
    for begin, _, obstacle in recording.blocked:
        yield Obstruction(sys.maxsize, begin, obstacle, None)


def divided(cause: Cause, holders: Holders, length: int) -> list[Share]:
    """Divides a wait among those who hold what is waited for."""
    if not holders:
        return [Share(cause, length)]
    parts = apportion(length, [float(amount) for _, amount in holders])
    return [
        Share(cause, ns, request_id, amount)
        for (request_id, amount), ns in zip(holders, parts, strict=True)
    ]
