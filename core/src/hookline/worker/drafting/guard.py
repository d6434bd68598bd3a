"""The only one that calls a proposer: whatever it does, the engine goes on.

A step without drafts is a step as it is without speculation, so every failure ends in
that: it is counted by its cause, logged now and then, and after several in a row the
proposer is left alone for a while.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

from hookline.config.speculative import SpeculativeConfig
from hookline.spec_decode.failure_cause import FailureCause
from hookline.spec_decode.proposer import DraftRequest, Proposer
from hookline.spec_decode.tree import tree_of
from hookline.worker.drafting.checking import (
    CheckedDrafts,
    DraftError,
    check_count,
    check_drafts,
)
from hookline.worker.drafting.thread import Answer, ProposerThread
from hookline_registry import Breaker, Failure, isolate

_log = logging.getLogger(__name__)

HUNG_SECONDS = 10.0
"""A call that has not returned after so long is not waited for any more, ever."""
LOG_SECONDS = 60.0
"""Failures of one cause are logged so often at most; all are counted."""


class ProposerGuard:
    """Asks a proposer for drafts; called by the executor's thread only.

    Attributes:
        is_abandoned: It hangs, and is never called again.
    """

    def __init__(
        self,
        proposer: Proposer,
        config: SpeculativeConfig,
        *,
        vocab_size: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._proposer = proposer
        self._config = config
        self._vocab_size = vocab_size
        self._is_tree = tree_of(proposer) is not None
        self._clock = clock
        self._thread = ProposerThread()
        self._breaker = Breaker(
            failures=config.breaker_failures,
            cool_down_seconds=config.breaker_seconds,
            clock=clock,
        )
        self._released: list[int] = []
        self._failures: Counter[str] = Counter()
        self._logged_at: dict[FailureCause, float] = {}
        self._called_at = 0.0
        self.is_abandoned = False

    @property
    def num_speculative_tokens(self) -> int:
        """Most drafts of a request."""
        return self._config.most_speculative_tokens

    def release(self, request_ids: Sequence[int]) -> None:
        """Has requests forgotten, before the next drafts are asked for."""
        if not self.is_abandoned:
            self._released += request_ids

    def propose(self, requests: Sequence[DraftRequest]) -> list[CheckedDrafts]:
        """Drafts for each request; none where the proposer has none, or fails.

        Returns after `timeout_seconds` and the time for the checks, at the latest.
        """
        nothing = [CheckedDrafts([]) for _ in requests]
        if not self._may_call():
            return nothing
        released, self._released = self._released, []
        self._called_at = self._clock()
        job = partial(self._call, released, requests)
        answer = self._thread.run(job, self._config.timeout_seconds)
        if answer is None:
            self._fail(FailureCause.SLOW, f"no drafts within the {self._limit}")
            return nothing
        return self._checked(requests, answer) or nothing

    def take_failures(self) -> dict[str, int]:
        """Failures since the last call, by cause."""
        failures, self._failures = self._failures, Counter()
        return dict(failures)

    def close(self) -> None:
        self._thread.close()

    @property
    def _limit(self) -> str:
        return f"{self._config.timeout_seconds} s of timeout_seconds"

    def _may_call(self) -> bool:
        if self.is_abandoned:
            return False
        if self._thread.is_busy and self._thread.take_late() is None:
            if self._clock() - self._called_at > HUNG_SECONDS:
                self.is_abandoned = True
                self._released = []
                self._fail(FailureCause.HUNG, "it is never asked again")
            return False
        return self._breaker.allows()

    def _call(self, released: list[int], requests: Sequence[DraftRequest]) -> object:
        """In the proposer's thread."""
        if released:
            self._proposer.release(released)
        return self._proposer.propose(requests)

    def _checked(
        self, requests: Sequence[DraftRequest], answer: Answer
    ) -> list[CheckedDrafts] | None:
        if isinstance(answer.outcome, Failure):
            failure = answer.outcome
            self._fail(FailureCause.RAISED, failure.summary, error=failure.error)
            return None
        # What was returned may be of any class, whose methods are plugin code too.
        outcome = isolate(check_count, answer.outcome, len(requests))
        if isinstance(outcome, Failure):
            self._refuse(outcome)
            return None
        found, successes = [], []
        for request, drafts in zip(requests, outcome, strict=True):
            checked = isolate(
                check_drafts, request, drafts, self._vocab_size, is_tree=self._is_tree
            )
            successes.append(not isinstance(checked, Failure))
            if isinstance(checked, Failure):
                self._note(checked)
                checked = CheckedDrafts([])
            found.append(checked)
        self._breaker.record([all(successes)])
        return found

    def _refuse(self, failure: Failure) -> None:
        self._note(failure)
        self._breaker.record([False])

    def _note(self, failure: Failure) -> None:
        error = failure.error
        # Any other error came of a value that is not what it should be.
        cause = FailureCause.MALFORMED
        if isinstance(error, DraftError):
            cause = error.cause
        self._count(cause, failure.summary)

    def _fail(
        self, cause: FailureCause, detail: str, *, error: BaseException | None = None
    ) -> None:
        self._count(cause, detail, error=error)
        self._breaker.record([False])

    def _count(
        self, cause: FailureCause, detail: str, *, error: BaseException | None = None
    ) -> None:
        self._failures[cause] += 1
        now = self._clock()
        if now - self._logged_at.get(cause, -LOG_SECONDS) < LOG_SECONDS:
            return
        self._logged_at[cause] = now
        _log.warning(
            "proposer %s: %s: %s; its steps go on without drafts",
            self._config.method,
            cause,
            detail,
            exc_info=error,
        )
