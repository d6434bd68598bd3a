"""Chooses how many drafts are requested for the next step: the best number, or none.

Throughput with k drafts is estimated from acceptance rates and measured durations, and
the k with the highest throughput is used. In addition, a budget tracks the time that
drafts really saved or lost: it grows by a small share of the engine's time, and once it
is spent, drafts stop until a trial can be afforded. So a wrong estimate never costs
more than that share. Pure arithmetic without clocks or threads; time counts in steps.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hookline_drafting.acceptance import Acceptance
from hookline_drafting.computed_step import ComputedStep
from hookline_drafting.config import SpeculativeConfig
from hookline_drafting.step_costs import StepCosts, VerificationCost
from hookline_drafting.trial_budget import SHARE, TrialBudget

TRIAL_DRAFTS = 2
"""Drafts per request in a trial."""
TRIAL_REQUESTS = 8
"""Maximum number of requests in a trial, unless the last one was promising.

The first trial has one request, and each has at most twice as many as the one before.
"""
FIRST_SHARE = 0.25
"""Share of a step that first proposals, for requests without one so far, may take."""
MOST_REST = 16
"""Maximum steps between trials; the pause doubles after each unpromising one."""

ENOUGH_DRAFTS = 4
"""Drafts that must be verified before speculation can start."""
START_GAIN = 1.05
"""Estimated speedup at which speculation starts; it stops below 1."""
CHANGE_GAIN = 1.03
"""Estimated speedup over the current number of drafts that justifies another one."""
EQUAL_GAIN = 0.99
"""Numbers of drafts within this share of the best speedup count as equally good."""
STEPS_BETWEEN = 4
"""Steps between decisions while speculation is on."""
SURPRISE = 1.25
"""Ratio to the expected duration at which two slow steps trigger a decision."""


class _Estimate(NamedTuple):
    """Estimated results of 0, 1, 2 … drafts per request.

    Attributes:
        gains: Speedups: tokens per second ÷ those without drafts.
        taken: Durations of a step in ns, including the proposer's call.
        pays: [requests, drafts] bool; whether a request should have that draft.
    """

    gains: list[float]
    taken: list[float]
    pays: npt.NDArray[np.bool_]

    def best(self, most: int) -> int:
        """Returns the best number of drafts from 1 to `most`; the lowest of equals."""
        gains = self.gains[1 : most + 1]
        enough = EQUAL_GAIN * max(gains)
        return 1 + next(at for at, gain in enumerate(gains) if gain >= enough)


class DraftControl:
    """Chooses the number of drafts of one engine.

    Call `observe` after each step, then `choose`, then `record_proposed`; or
    `skip_step` instead, if it returns True.

    Attributes:
        num_drafts: Current maximum number of drafts per request; 0 if speculation is
            off.
    """

    def __init__(self, most: int) -> None:
        """Chooses from 0 to `most` drafts per request."""
        self._most = most
        self._acceptance = Acceptance(most)
        self._costs = StepCosts()
        self._budget = TrialBudget()
        self._limits: dict[int, int] = {}
        self._known: set[int] = set()
        self._steps = self._decided_at = self._turn = 0
        self._reach = self._pause = 1
        self._rests_until = self._rested = self._slow_steps = 0
        self._is_trial = self._has_news = self._is_measure = self._is_open = False
        self._has_proposed = False
        self._expected = self._spent = self._plain = 0.0
        self.num_drafts = 0

    @classmethod
    def of(cls, config: SpeculativeConfig) -> "DraftControl | None":
        """Returns the control for a configuration, or None for a fixed number."""
        return cls(config.most_speculative_tokens) if config.is_adaptive else None

    def skip_step(self) -> bool:
        """Counts a step without drafts if it needs no measurement; else returns False.

        Saves time in the many steps between trials, which are short for small models.
        """
        if self.num_drafts or self._steps + 1 >= self._rests_until:
            return False
        self._steps += 1
        self._rested += 1
        return True

    def observe(self, step: ComputedStep) -> None:
        """Records the step that has just been computed."""
        self._steps += 1
        spent, self._spent = self._spent, 0.0
        if step.outcomes:
            self._acceptance.record_verified(step.outcomes)
            self._has_news = True
        if self._plain:
            self._budget.charge(spent / self._plain)
        self._is_measure = not step.has_prompts
        if step.has_prompts:
            return
        drafts = sum(count for count, _ in step.outcomes.values())
        accepted = sum(count for _, count in step.outcomes.values())
        taken, requests = float(step.nanoseconds), step.num_requests
        self._costs.record_step(requests, drafts, taken, self._steps)
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
        self._budget.add_steps(steps * taken / plain, gained)

    def choose(self, request_ids: Sequence[int], num_requests: int) -> list[int]:
        """Returns the maximum number of drafts of each request.

        Args:
            request_ids: Requests that can have drafts.
            num_requests: Number of all requests in the batch.
        """
        was_trial, self._is_trial = self._is_trial, False
        nothing = [0] * len(request_ids)
        plain = self._costs.plain(num_requests, self._steps)
        if plain is None or not request_ids:
            return nothing
        if not self.num_drafts:
            if not self._starts(request_ids, num_requests, plain):
                if was_trial:
                    # A promising trial is repeated soon, after one step without
                    # drafts for comparison.
                    self._pause = 2 if self._is_open else 2 * self._pause
                    self._rest(self._pause)
                    most = num_requests if self._is_open else TRIAL_REQUESTS
                    self._reach = min(2 * self._reach, most)
                # The duration of steps with prompts does not measure a trial.
                elif self._is_measure and self._steps >= self._rests_until:
                    return self._trial(request_ids, num_requests, plain)
                return nothing
        elif self._is_due and not self._decide(request_ids, num_requests, plain):
            return nothing
        limits = [self._limits.get(each, self.num_drafts) for each in request_ids]
        return self._introduce(request_ids, limits, plain)

    def record_proposed(
        self, counts: Mapping[int, tuple[int, int]], nanoseconds: int
    ) -> None:
        """Records the result of a proposer's call.

        Args:
            counts: (requested, returned) numbers of drafts by request id; empty if the
                proposer was not called.
            nanoseconds: Duration of `choose` and of the call.
        """
        self._spent = float(nanoseconds)
        if not counts:
            return
        self._acceptance.record_proposed(counts)
        if not self._has_proposed:
            # A proposer's first call may be slow; one step is charged at most.
            self._has_proposed, self._spent = True, min(self._spent, self._plain)
        most = TRIAL_DRAFTS if self._is_trial else self.num_drafts
        new = len(counts.keys() - self._known)
        self._known.update(counts)
        self._costs.record_proposal(
            len(counts), most, float(nanoseconds), self._steps, new
        )
        self._has_news = True

    def remove_request(self, request_id: int) -> None:
        """Forgets a request that left the batch."""
        self._acceptance.remove_request(request_id)
        self._limits.pop(request_id, None)
        self._known.discard(request_id)

    @property
    def _is_due(self) -> bool:
        passed = self._steps - self._decided_at
        return self._budget.is_spent or passed >= STEPS_BETWEEN

    def _starts(
        self, request_ids: Sequence[int], num_requests: int, plain: float
    ) -> bool:
        """Turns speculation on, with few drafts, if it is estimated to pay."""
        if not self._has_news or self._acceptance.num_seen < ENOUGH_DRAFTS:
            return False
        self._has_news = False
        if self._costs.verification(num_requests, num_requests, self._steps) is None:
            return False
        estimate = self._estimate(request_ids, num_requests, plain, self._most)
        if max(estimate.gains[1:]) < START_GAIN or self._budget.is_spent:
            optimistic = self._estimate(
                request_ids, num_requests, plain, self._most, optimistic=True
            )
            # If only the first few drafts may be expensive, more are worth a trial.
            self._is_open = max(optimistic.gains[1:]) >= START_GAIN
            return False
        # No more drafts over all requests than in a trial, if that is one for each.
        few = -(-TRIAL_DRAFTS * min(self._reach, len(request_ids)) // num_requests)
        self._apply(estimate, estimate.best(min(few, self._most)), request_ids)
        return True

    def _trial(
        self, request_ids: Sequence[int], num_requests: int, plain: float
    ) -> list[int]:
        """Returns a few drafts for a few requests, in turn, if the budget allows it."""
        count = min(self._reach, len(request_ids))
        drafts, tried = min(TRIAL_DRAFTS, self._most), self._next(request_ids, count)
        found, chances = self._acceptance.forecast(tried, drafts)
        is_new = [each not in self._known for each in tried]

        def price() -> float:
            """Returns the estimated loss in steps, including the proposer's call."""
            costs, had = self._costs, found[:count, :drafts]
            cost = costs.verification(num_requests, float(had.sum()), self._steps)
            cost = cost or VerificationCost()
            added = cost.least if self._is_open else cost.likely
            accepted = float((had * chances[:count, :drafts]).sum())
            proposal = costs.proposal(count, drafts)
            first = costs.first_proposal * sum(is_new[:count])
            lost = max(0.0, added / plain - accepted / num_requests)
            return (proposal + first) / plain + lost

        # A smaller trial now is better than a larger one later.
        available = self._budget.available(is_promising=self._is_open)
        while price() > available and count * drafts > 1:
            count, drafts = (count // 2, drafts) if count > 1 else (1, drafts - 1)
        if not self._budget.affords(price(), is_promising=self._is_open):
            self._rest(math.ceil(self._budget.steps_to_target))
            return [0] * len(request_ids)
        self._is_trial, self._reach = True, count
        self._turn = (self._turn + 1) % len(request_ids)
        chosen = set(tried[:count])
        return [drafts if each in chosen else 0 for each in request_ids]

    def _rest(self, steps: int) -> None:
        self._pause = min(self._pause, MOST_REST)
        self._rests_until = self._steps + min(steps, MOST_REST)

    def _next(self, request_ids: Sequence[int], count: int) -> list[int]:
        """Returns `count` of the requests, in turn.

        If `count` > 1, one of them has had no proposal yet, or more if others are few.
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
        """Limits the number of requests that get their first proposal in this step.

        First proposals for all of them can take as long as many steps.
        """
        new = [
            at
            for at, each in enumerate(request_ids)
            if limits[at] and each not in self._known
        ]
        if new and (first := self._costs.first_proposal):
            room = max(1, int(FIRST_SHARE * plain / first))
            for at in new[room:]:
                limits[at] = 0
        return limits

    def _decide(
        self, request_ids: Sequence[int], num_requests: int, plain: float
    ) -> bool:
        """Updates the number of drafts; returns False if this step gets none."""
        now = self.num_drafts
        estimate = self._estimate(request_ids, num_requests, plain, self._most)
        best = estimate.best(self._most)
        if estimate.gains[best] < 1 or self._budget.is_spent:
            best, self._reach, self._has_news = 0, 1, False
        elif estimate.gains[best] < CHANGE_GAIN * estimate.gains[now]:
            best = now
        best = min(best, 2 * now)
        self._apply(estimate, best, request_ids)
        if not best:
            return False
        # An occasional step without drafts, to measure it, costs what drafts gain.
        age = self._steps - self._costs.plain_at(num_requests)
        lost = (estimate.gains[best] - 1) * plain
        return age < 2 * STEPS_BETWEEN or lost > SHARE * age * self._expected

    def _apply(
        self, estimate: _Estimate, drafts: int, request_ids: Sequence[int]
    ) -> None:
        limits = estimate.pays[:, :drafts].sum(1).tolist()
        self.num_drafts, self._expected = drafts, estimate.taken[drafts]
        self._limits = dict(zip(request_ids, limits, strict=True))
        self._decided_at = self._steps

    def _estimate(
        self,
        request_ids: Sequence[int],
        num_requests: int,
        plain: float,
        most: int,
        *,
        optimistic: bool = False,
    ) -> _Estimate:
        """Estimates up to `most` drafts, at their likely or their least cost.

        A request gets no draft that is less likely accepted than the tokens which the
        time of its verification would produce without drafts.
        """

        def verification(drafts: float) -> float:
            added = self._costs.verification(num_requests, drafts, self._steps)
            added = added or VerificationCost()
            return added.least if optimistic else added.likely

        found, chances = self._acceptance.forecast(request_ids, most)
        pays = chances >= verification(num_requests) / plain
        self._retry(pays)
        tokens = np.cumsum((found * chances * pays).sum(0)).tolist()
        drafts = np.cumsum((found * pays).sum(0)).tolist()
        num_chosen = int(pays[:, 0].sum())
        gains, taken = [1.0], [plain]
        for count in range(most):
            proposal = self._costs.proposal(num_chosen, count + 1)
            taken.append(plain + verification(drafts[count]) + proposal)
            gains.append((1 + tokens[count] / num_requests) * plain / taken[-1])
        return _Estimate(gains, taken, pays)

    def _retry(self, pays: npt.NDArray[np.bool_]) -> None:
        """Gives a draft to one of the requests without any, in turn."""
        left_out = np.flatnonzero(~pays[:, 0])
        if 0 < len(left_out) < len(pays):
            pays[left_out[self._steps % len(left_out)], 0] = True
