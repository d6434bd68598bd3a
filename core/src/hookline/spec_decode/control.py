"""How many drafts requests may ask for in the next step: as many as pay, or none.

Tokens a second with k drafts are what acceptance promises over what steps were
measured to take; the best k counts. What drafts bring and what they cost, as measured,
is kept in an account besides: a small share of the time is paid in, and where it is
used up there are no drafts until a trial can be paid for again. So no estimate, however
wrong, costs more than that. Arithmetic alone: no clock and no thread, and time counts
in steps.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hookline.spec_decode.acceptance import Acceptance
from hookline.spec_decode.computed_step import ComputedStep
from hookline.spec_decode.config import SpeculativeConfig
from hookline.spec_decode.step_costs import StepCosts

TRIAL_SHARE = 0.01
"""Of the time may go into trying out."""
_AT_FIRST = 1.0
"""Steps without drafts whose time is in the account at first, and by pay alone …"""
_MOST_SAVED = 2.0
"""… and with what drafts have gained."""
_ENOUGH = 0.9
"""Of these buy a trial, whatever it has cost."""
_MOST_OWED = 2.0
"""What can have to be paid back before the next trial."""
TRIAL_DRAFTS = 2
TRIAL_REQUESTS = 8
"""So many requests, so many drafts each, are a trial."""

ENOUGH_DRAFTS = 4
"""Must have been verified before any are asked for without a trial."""
START_GAIN = 1.05
"""Drafts begin where they promise so many times the tokens a second; they end where
they promise none more."""
CHANGE_GAIN = 1.03
"""Another number of drafts must promise so many times the tokens of the present one."""
STEPS_BETWEEN = 4
"""Decisions, where there are drafts …"""
SURPRISE = 1.25
"""… unless a step takes so many times what was expected."""


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
        """Of 1 to `most` drafts."""
        return max(range(1, most + 1), key=self.gains[: most + 1].__getitem__)


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
        self._limits: dict[int, int] = {}
        self._steps = self._decided_at = self._turn = 0
        self._saved: float | None = None
        self._is_trial = self._has_news = False
        self._expected = self._spent = 0.0
        self.num_drafts = 0

    @classmethod
    def of(cls, config: SpeculativeConfig) -> "DraftControl | None":
        """None where the number of drafts is given."""
        return cls(config.most_speculative_tokens) if config.is_adaptive else None

    def observe(self, step: ComputedStep) -> None:
        """Takes in the step that has just been computed."""
        self._steps += 1
        spent, self._spent = self._spent, 0.0
        if step.outcomes:
            self._acceptance.verified(step.outcomes)
            self._has_news = True
        if step.has_prompts:
            return
        drafts = sum(count for count, _ in step.outcomes.values())
        taken, requests = float(step.nanoseconds), step.num_requests
        self._costs.computed(requests, drafts, taken, self._steps)
        if drafts and taken + spent > SURPRISE * self._expected:
            self._decided_at = self._steps - STEPS_BETWEEN
        if (plain := self._costs.plain(requests, self._steps)) is None:
            return
        if self._saved is None:
            self._saved = _AT_FIRST * plain
        if self._saved < _AT_FIRST * plain:
            self._saved += TRIAL_SHARE * taken
        self._saved -= spent
        if drafts:
            accepted = sum(count for _, count in step.outcomes.values())
            self._saved += (1 + accepted / requests) * plain - taken
        self._saved = min(max(self._saved, -_MOST_OWED * plain), _MOST_SAVED * plain)

    def choose(self, request_ids: Sequence[int], num_requests: int) -> list[int]:
        """How many drafts each request may ask for.

        Args:
            request_ids: Those that drafts can be made for.
            num_requests: With those that none can be made for.
        """
        was_trial, self._is_trial = self._is_trial, False
        nothing = [0] * len(request_ids)
        plain = self._costs.plain(num_requests, self._steps)
        if plain is None or self._saved is None or not request_ids:
            return nothing
        if not self.num_drafts:
            if not self._starts(request_ids, num_requests, plain):
                # Between two trials there is a step to compare them with.
                if was_trial:
                    return nothing
                return self._trial(request_ids, num_requests, plain)
        elif self._is_due and not self._decide(request_ids, num_requests, plain):
            return nothing
        return [self._limits.get(each, self.num_drafts) for each in request_ids]

    def proposed(self, counts: Mapping[int, int], nanoseconds: int) -> None:
        """Takes in how many drafts came for each request that was asked for."""
        self._acceptance.proposed(counts)
        most = TRIAL_DRAFTS if self._is_trial else self.num_drafts
        self._costs.asked(len(counts), most, float(nanoseconds), self._steps)
        self._has_news, self._spent = True, float(nanoseconds)

    def release(self, request_id: int) -> None:
        """Forgets a request that left the batch."""
        self._acceptance.release(request_id)
        self._limits.pop(request_id, None)

    @property
    def _is_due(self) -> bool:
        assert self._saved is not None
        return self._saved <= 0 or self._steps - self._decided_at >= STEPS_BETWEEN

    def _starts(
        self, request_ids: Sequence[int], num_requests: int, plain: float
    ) -> bool:
        """Begins with few drafts if they, or more, promise enough."""
        if not self._has_news or self._acceptance.num_seen < ENOUGH_DRAFTS:
            return False
        self._has_news = False
        if self._costs.verifying(num_requests, num_requests, self._steps) is None:
            return False
        assert self._saved is not None
        promise = self._promise(request_ids, num_requests, plain, self._most)
        if max(promise.gains[1:]) < START_GAIN or self._saved <= 0:
            return False
        # No more in all than a trial has, where that is one for each request at least.
        few = -(-TRIAL_DRAFTS * min(TRIAL_REQUESTS, len(request_ids)) // num_requests)
        self._take(promise, promise.best(min(few, self._most)), request_ids)
        return True

    def _trial(
        self, request_ids: Sequence[int], num_requests: int, plain: float
    ) -> list[int]:
        """A few drafts for a few requests, in turn, if it can be paid for."""
        drafts = min(TRIAL_DRAFTS, self._most)
        costs, limits = self._costs, [0] * len(request_ids)
        assert self._saved is not None
        left = self._saved - costs.asking(1, drafts)
        one = costs.verifying(num_requests, drafts, self._steps) or 0.0
        if left < one and self._saved < _ENOUGH * plain:
            return limits
        # Of dear drafts there are fewer, rather than a trial later.
        count = min(TRIAL_REQUESTS, len(limits))
        if one > 0:
            count = min(count, max(1, int(left / one)))
        self._is_trial = True
        for at in range(count):
            limits[(self._turn + at) % len(limits)] = drafts
        # Who was asked before costs less: of these only one is new.
        self._turn = (self._turn + 1) % len(limits)
        return limits

    def _decide(
        self, request_ids: Sequence[int], num_requests: int, plain: float
    ) -> bool:
        """Settles how many drafts there are from now on; False skips this step's."""
        growth, now = min(self._most, 2 * self.num_drafts), self.num_drafts
        promise = self._promise(request_ids, num_requests, plain, growth)
        best = promise.best(growth)
        assert self._saved is not None
        if promise.gains[best] < 1 or self._saved <= 0:
            best = 0
        elif promise.gains[best] < CHANGE_GAIN * promise.gains[now]:
            best = now
        self._take(promise, best, request_ids)
        if not best:
            return False
        # A step without drafts is measured now and then; it loses what drafts gain.
        age = self._steps - self._costs.plain_at(num_requests)
        lost = (promise.gains[best] - 1) * plain
        return age < 2 * STEPS_BETWEEN or lost > TRIAL_SHARE * age * self._expected

    def _take(self, promise: _Promise, drafts: int, request_ids: Sequence[int]) -> None:
        limits = promise.pays[:, :drafts].sum(1).tolist()
        self.num_drafts, self._expected = drafts, promise.taken[drafts]
        self._limits = dict(zip(request_ids, limits, strict=True))
        self._decided_at = self._steps

    def _promise(
        self, request_ids: Sequence[int], num_requests: int, plain: float, most: int
    ) -> _Promise:
        """Of up to `most` drafts.

        A request has no draft whose chance is less than what its time would bring
        without drafts.
        """
        found, chances = self._acceptance.forecast(request_ids, most)
        costs, at = self._costs, self._steps
        one_each = costs.verifying(num_requests, num_requests, at) or 0.0
        pays = chances >= one_each / plain
        self._retry(pays)
        tokens = np.cumsum(found @ (chances * pays)).tolist()
        drafts = np.cumsum(found @ pays).tolist()
        asked = int(pays[:, 0].sum())
        gains, taken = [1.0], [plain]
        for count in range(most):
            verifying = costs.verifying(num_requests, drafts[count], at) or 0.0
            taken.append(plain + verifying + costs.asking(asked, count + 1))
            gains.append((1 + tokens[count] / num_requests) * plain / taken[-1])
        return _Promise(gains, taken, pays)

    def _retry(self, pays: npt.NDArray[np.bool_]) -> None:
        """Gives one of the requests that have no draft one again, in turn."""
        left_out = np.flatnonzero(~pays[:, 0])
        if 0 < len(left_out) < len(pays):
            pays[left_out[self._steps % len(left_out)], 0] = True
