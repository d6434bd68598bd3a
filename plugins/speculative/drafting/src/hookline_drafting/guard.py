"""Calls a proposer and isolates the engine from its failures.

A step whose proposer fails runs without drafts. Failures are counted by cause and
logged at intervals; after several in a row the proposer is paused for a while.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial

from hookline_drafting.checking import (
    CheckedDrafts,
    DraftError,
    check_count,
    check_drafts,
)
from hookline_drafting.config import SpeculativeConfig
from hookline_drafting.proposer import DraftRequest, Proposer
from hookline_drafting.tree import tree_of
from hookline_metrics.drafts import FailureCause
from hookline_registry import Failure, PluginGuard, isolate
from hookline_registry.plugin_thread import Answer, PluginThread

HUNG_SECONDS = 10.0
"""A proposer whose call has not returned after this long is never called again."""


class ProposerGuard:
    """Calls a proposer with a timeout; for the executor's thread only.

    Attributes:
        is_abandoned: Whether the proposer hung, and is never called again.
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
        self._thread = PluginThread("proposer")
        self._guard = PluginGuard(
            f"proposer {config.method}",
            failures=config.breaker_failures,
            cool_down_seconds=config.breaker_seconds,
            clock=clock,
        )
        self._released: list[int] = []
        self._called_at = 0.0
        self.is_abandoned = False

    @property
    def num_speculative_tokens(self) -> int:
        """Maximum number of drafts of a request."""
        return self._config.most_speculative_tokens

    def schedule_release(self, request_ids: Sequence[int]) -> None:
        """Has the proposer release requests before the next drafts."""
        if not self.is_abandoned:
            self._released += request_ids

    def propose(self, requests: Sequence[DraftRequest]) -> list[CheckedDrafts]:
        """Returns the drafts of each request; empty ones if the proposer fails.

        Takes at most `timeout_seconds` plus the time for the checks.
        """
        nothing = [CheckedDrafts([]) for _ in requests]
        if not self._may_call():
            return nothing
        released, self._released = self._released, []
        self._called_at = self._clock()
        job = partial(self._call, tuple(released), tuple(requests))
        answer = self._thread.run(job, self._config.timeout_seconds)
        if answer is None:
            detail = f"no drafts within {self._config.timeout_seconds} s"
            self._guard.fail((FailureCause.SLOW,), detail)
            return nothing
        return self._checked(requests, answer) or nothing

    def take_failures(self) -> dict[str, int]:
        """Returns the failures since the last call, by cause."""
        return {str(cause): n for (cause,), n in self._guard.failures.drain().items()}

    def close(self) -> None:
        self._thread.close()

    def _may_call(self) -> bool:
        if self.is_abandoned:
            return False
        if self._thread.is_busy and self._thread.take_late() is None:
            if self._clock() - self._called_at > HUNG_SECONDS:
                self.is_abandoned = True
                self._released = []
                self._guard.fail((FailureCause.HUNG,), "it is never called again")
            return False
        return self._guard.breaker.allows()

    def _call(
        self, released: tuple[int, ...], requests: tuple[DraftRequest, ...]
    ) -> object:
        """Calls the proposer; runs in its thread."""
        if released:
            self._proposer.release(released)
        return self._proposer.propose(requests)

    def _checked(
        self, requests: Sequence[DraftRequest], answer: Answer
    ) -> list[CheckedDrafts] | None:
        if isinstance(answer.outcome, Failure):
            raised = answer.outcome
            kind = (FailureCause.RAISED,)
            self._guard.fail(kind, raised.summary, error=raised.error)
            return None
        # The returned value may be of any class, whose methods are plugin code, too.
        outcome = isolate(check_count, answer.outcome, len(requests))
        if isinstance(outcome, Failure):
            self._guard.fail((_cause(outcome),), outcome.summary)
            return None
        found, successes = [], []
        for request, drafts in zip(requests, outcome, strict=True):
            checked = isolate(
                check_drafts, request, drafts, self._vocab_size, is_tree=self._is_tree
            )
            successes.append(not isinstance(checked, Failure))
            if isinstance(checked, Failure):
                self._guard.failures.note((_cause(checked),), checked.summary)
                checked = CheckedDrafts([], flaw=checked.summary)
            found.append(checked)
        self._guard.breaker.record([all(successes)])
        return found


def _cause(failure: Failure) -> FailureCause:
    # Any other error was raised by a malformed value.
    error = failure.error
    return error.cause if isinstance(error, DraftError) else FailureCause.MALFORMED
