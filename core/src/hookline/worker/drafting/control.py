"""How many drafts requests may ask for in the next step: as many as pay, or none.

Tokens a second with k drafts are what acceptance promises over what steps were
measured to take; the best k counts. What drafts bring and what they cost, as measured,
is kept in an account besides: a small share of the time is paid in, and where it is
used up there are no drafts until a trial can be paid for again. So no estimate, however
wrong, costs more than that. Arithmetic alone: no clock and no thread, and time counts
in steps.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hookline.config.speculative import SpeculativeConfig
from hookline.worker.drafting.acceptance import Acceptance
from hookline.worker.drafting.account import SHARE, Account
from hookline.worker.drafting.computed_step import ComputedStep
from hookline.worker.drafting.step_costs import StepCosts, Verifying

TRIAL_DRAFTS = 2
TRIAL_REQUESTS = 8
"""So many requests, so many drafts each, are a trial. The first is one request, and
each has at most twice as many as the last; more than this only if that one promises
that many drafts pay where few do not."""
FIRST_SHARE = 0.25
"""Of a step may be spent on asking for requests that were never asked for."""
MOST_REST = 16
"""Steps between two trials; they are doubled after each one that promises nothing."""

ENOUGH_DRAFTS = 4
"""Must have been verified before any are asked for without a trial."""
START_GAIN = 1.05
"""Drafts begin where they promise so many times the tokens a second; they end where
they promise none more."""
CHANGE_GAIN = 1.03
"""Another number of drafts must promise so many times the tokens of the present one."""
EQUAL_GAIN = 0.99
"""Numbers of drafts that promise so near to the most are as good as the best."""
STEPS_BETWEEN = 4
"""Decisions, where there are drafts …"""
SURPRISE = 1.25
"""… unless two steps take so many times what was expected."""


class _Promise(NamedTuple):
    """What is to be expected of 0, 1, 2 … drafts a request.

    Attributes:
        gains: Tokens a second ÷ those without drafts.
        taken: By a step, asking included, in ns.
        pays: [requests, drafts] whether a request should have that draft.
    """

    gains: list[float]
    taken: list[float]
    pays: npt.NDArray[np.bool_]

    def best(self, most: int) -> int:
        """Of 1 to `most` drafts; of numbers that promise the same, the least."""
        gains = self.gains[1 : most + 1]
        enough = EQUAL_GAIN * max(gains)
        return 1 + next(at for at, gain in enumerate(gains) if gain >= enough)


class DraftControl:
    """Of one engine; told of each step, and asked before each time drafts are made.

    Attributes:
        num_drafts: Most drafts of a request at present; 0 where speculation is off.
    """

    def __init__(self, most: int) -> None:
        """Of up to `most` drafts for each request."""
        self._most = most
        self._acceptance = Acceptance(most)
        self._costs = StepCosts()
        self._account = Account()
        self._limits: dict[int, int] = {}
        self._known: set[int] = set()
        self._steps = self._decided_at = self._turn = 0
        self._reach = self._pause = 1
        self._rests_until = self._rested = self._slow_steps = 0
        self._is_trial = self._has_news = self._is_measure = self._is_open = False
        self._has_asked = False
        self._expected = self._spent = self._plain = 0.0
        self.num_drafts = 0

    @classmethod
    def of(cls, config: SpeculativeConfig) -> "DraftControl | None":
        """None where the number of drafts is given."""
        return cls(config.most_speculative_tokens) if config.is_adaptive else None

    def rests(self) -> bool:
        """Whether a step without drafts need not be told of, as nothing will be chosen.

        Between trials there are many; a small model's steps are short, too.
        """
        if self.num_drafts or self._steps + 1 >= self._rests_until:
            return False
        self._steps += 1
        self._rested += 1
        return True

    def observe(self, step: ComputedStep) -> None:
        """Takes in the step that has just been computed."""
        self._steps += 1
        spent, self._spent = self._spent, 0.0
        if step.outcomes:
            self._acceptance.verified(step.outcomes)
            self._has_news = True
        if self._plain:
            self._account.charge(spent / self._plain)
        self._is_measure = not step.has_prompts
        if step.has_prompts:
            return
        drafts = sum(count for count, _ in step.outcomes.values())
        accepted = sum(count for _, count in step.outcomes.values())
        taken, requests = float(step.nanoseconds), step.num_requests
        self._costs.computed(requests, drafts, taken, self._steps)
        if drafts or self._is_trial:
            self._is_open = accepted > 0
        is_slow = drafts > 0 and taken + spent > SURPRISE * self._expected
        self._slow_steps = self._slow_steps + 1 if is_slow else 0
        if self._slow_steps > 1:
            self._decided_at = self._steps - STEPS_BETWEEN
        if (plain := self._costs.plain(requests, self._steps)) is None:
            return
        self._plain = plain
        gained = 1 + accepted / requests - taken / plain if drafts else 0.0
        steps, self._rested = 1 + self._rested, 0
        self._account.enter(steps * taken / plain, gained)

    def choose(self, request_ids: Sequence[int], num_requests: int) -> list[int]:
        """How many drafts each request may ask for.

        Args:
            request_ids: Those that drafts can be made for.
            num_requests: With those that none can be made for.
        """
        was_trial, self._is_trial = self._is_trial, False
        nothing = [0] * len(request_ids)
        plain = self._costs.plain(num_requests, self._steps)
        if plain is None or not request_ids:
            return nothing
        if not self.num_drafts:
            if not self._starts(request_ids, num_requests, plain):
                if was_trial:
                    # One that promises something is soon followed by another; in
                    # between there is a step to compare them with.
                    self._pause = 2 if self._is_open else 2 * self._pause
                    self._rest(self._pause)
                    most = num_requests if self._is_open else TRIAL_REQUESTS
                    self._reach = min(2 * self._reach, most)
                # Where prompts are computed trials tell too little.
                elif self._is_measure and self._steps >= self._rests_until:
                    return self._trial(request_ids, num_requests, plain)
                return nothing
        elif self._is_due and not self._decide(request_ids, num_requests, plain):
            return nothing
        limits = [self._limits.get(each, self.num_drafts) for each in request_ids]
        return self._introduce(request_ids, limits, plain)

    def proposed(self, counts: Mapping[int, tuple[int, int]], nanoseconds: int) -> None:
        """Takes in how many drafts each request was asked for, and how many came.

        Args:
            counts: By request id; empty if nothing was asked for.
            nanoseconds: That it took, what was chosen included.
        """
        self._spent = float(nanoseconds)
        if not counts:
            return
        self._acceptance.proposed(counts)
        if not self._has_asked:
            # A proposer that starts up is slow once; it is charged for a step at most.
            self._has_asked, self._spent = True, min(self._spent, self._plain)
        most = TRIAL_DRAFTS if self._is_trial else self.num_drafts
        new = len(counts.keys() - self._known)
        self._known.update(counts)
        self._costs.asked(len(counts), most, float(nanoseconds), self._steps, new)
        self._has_news = True

    def release(self, request_id: int) -> None:
        """Forgets a request that left the batch."""
        self._acceptance.release(request_id)
        self._limits.pop(request_id, None)
        self._known.discard(request_id)

    @property
    def _is_due(self) -> bool:
        passed = self._steps - self._decided_at
        return self._account.is_spent or passed >= STEPS_BETWEEN

    def _starts(
        self, request_ids: Sequence[int], num_requests: int, plain: float
    ) -> bool:
        """Begins with few drafts if they, or more, promise enough."""
        if not self._has_news or self._acceptance.num_seen < ENOUGH_DRAFTS:
            return False
        self._has_news = False
        if self._costs.verifying(num_requests, num_requests, self._steps) is None:
            return False
        promise = self._promise(request_ids, num_requests, plain, self._most)
        if max(promise.gains[1:]) < START_GAIN or self._account.is_spent:
            hopes = self._promise(
                request_ids, num_requests, plain, self._most, hopeful=True
            )
            # Where it may be the first few drafts alone that are dear, more are tried.
            self._is_open = max(hopes.gains[1:]) >= START_GAIN
            return False
        # No more in all than a trial has, where that is one for each request at least.
        few = -(-TRIAL_DRAFTS * min(self._reach, len(request_ids)) // num_requests)
        self._take(promise, promise.best(min(few, self._most)), request_ids)
        return True

    def _trial(
        self, request_ids: Sequence[int], num_requests: int, plain: float
    ) -> list[int]:
        """A few drafts for a few requests, in turn, if it can be paid for."""
        count = min(self._reach, len(request_ids))
        drafts, tried = min(TRIAL_DRAFTS, self._most), self._next(request_ids, count)
        found, chances = self._acceptance.forecast(tried, drafts)
        is_new = [each not in self._known for each in tried]

        def price() -> float:
            """What they may lose, asking included, in steps."""
            costs, had = self._costs, found[:count, :drafts]
            verifying = costs.verifying(num_requests, float(had.sum()), self._steps)
            verifying = verifying or Verifying()
            added = verifying.least if self._is_open else verifying.likely
            accepted = float((had * chances[:count, :drafts]).sum())
            asking = costs.asking(count, drafts)
            first = costs.first_asking * sum(is_new[:count])
            lost = max(0.0, added / plain - accepted / num_requests)
            return (asking + first) / plain + lost

        # Of dear drafts there are fewer, rather than a trial later.
        room = self._account.room(is_promising=self._is_open)
        while price() > room and count * drafts > 1:
            count, drafts = (count // 2, drafts) if count > 1 else (1, drafts - 1)
        if not self._account.affords(price(), is_promising=self._is_open):
            self._rest(math.ceil(self._account.waiting))
            return [0] * len(request_ids)
        self._is_trial, self._reach = True, count
        self._turn = (self._turn + 1) % len(request_ids)
        chosen = set(tried[:count])
        return [drafts if each in chosen else 0 for each in request_ids]

    def _rest(self, steps: int) -> None:
        self._pause = min(self._pause, MOST_REST)
        self._rests_until = self._steps + min(steps, MOST_REST)

    def _next(self, request_ids: Sequence[int], count: int) -> list[int]:
        """So many of the requests, in turn; of several one that was never asked for.

        Or more of these where there are no others.
        """
        turn = self._turn % len(request_ids)
        order = [*request_ids[turn:], *request_ids[:turn]]
        new = [each for each in order if each not in self._known]
        known = [each for each in order if each in self._known]
        known = known[: max(1, count - 1) if new else count]
        return [*known, *new[: count - len(known)]]

    def _introduce(
        self, request_ids: Sequence[int], limits: list[int], plain: float
    ) -> list[int]:
        """Of requests that were never asked for, only some at once.

        What a proposer does for them all the first time can take many steps.
        """
        new = [
            at
            for at, each in enumerate(request_ids)
            if limits[at] and each not in self._known
        ]
        if new and (first := self._costs.first_asking):
            room = max(1, int(FIRST_SHARE * plain / first))
            for at in new[room:]:
                limits[at] = 0
        return limits

    def _decide(
        self, request_ids: Sequence[int], num_requests: int, plain: float
    ) -> bool:
        """Settles how many drafts there are from now on; False skips this step's."""
        now = self.num_drafts
        promise = self._promise(request_ids, num_requests, plain, self._most)
        best = promise.best(self._most)
        if promise.gains[best] < 1 or self._account.is_spent:
            best, self._reach, self._has_news = 0, 1, False
        elif promise.gains[best] < CHANGE_GAIN * promise.gains[now]:
            best = now
        best = min(best, 2 * now)
        self._take(promise, best, request_ids)
        if not best:
            return False
        # A step without drafts is measured now and then; it loses what drafts gain.
        age = self._steps - self._costs.plain_at(num_requests)
        lost = (promise.gains[best] - 1) * plain
        return age < 2 * STEPS_BETWEEN or lost > SHARE * age * self._expected

    def _take(self, promise: _Promise, drafts: int, request_ids: Sequence[int]) -> None:
        limits = promise.pays[:, :drafts].sum(1).tolist()
        self.num_drafts, self._expected = drafts, promise.taken[drafts]
        self._limits = dict(zip(request_ids, limits, strict=True))
        self._decided_at = self._steps

    def _promise(
        self,
        request_ids: Sequence[int],
        num_requests: int,
        plain: float,
        most: int,
        *,
        hopeful: bool = False,
    ) -> _Promise:
        """Of up to `most` drafts, at what they are likely to cost, or at the least.

        A request has no draft whose chance is less than what its time would bring
        without drafts.
        """

        def verifying(drafts: float) -> float:
            added = self._costs.verifying(num_requests, drafts, self._steps)
            added = added or Verifying()
            return added.least if hopeful else added.likely

        found, chances = self._acceptance.forecast(request_ids, most)
        pays = chances >= verifying(num_requests) / plain
        self._retry(pays)
        tokens = np.cumsum((found * chances * pays).sum(0)).tolist()
        drafts = np.cumsum((found * pays).sum(0)).tolist()
        asked = int(pays[:, 0].sum())
        gains, taken = [1.0], [plain]
        for count in range(most):
            asking = self._costs.asking(asked, count + 1)
            taken.append(plain + verifying(drafts[count]) + asking)
            gains.append((1 + tokens[count] / num_requests) * plain / taken[-1])
        return _Promise(gains, taken, pays)

    def _retry(self, pays: npt.NDArray[np.bool_]) -> None:
        """Gives one of the requests that have no draft one again, in turn."""
        left_out = np.flatnonzero(~pays[:, 0])
        if 0 < len(left_out) < len(pays):
            pays[left_out[self._steps % len(left_out)], 0] = True
