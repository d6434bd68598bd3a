"""Admission of requests to the queue: bounds, and when to try again."""

import math

from hookline.clock import NANOSECONDS, Clock, SystemClock
from hookline.config.scheduler import SchedulerConfig
from hookline.exceptions import OverloadedError, QueuedTokensError
from hookline.frontend.engine_set import EngineSet

QUEUED_TOKENS = 4 * 1024 * 1024
"""Default bound of waiting prompt tokens. A token takes some 40 bytes per process."""

SHORTEST_RETRY = 1
LONGEST_RETRY = 60
_WINDOW_NS = 10 * NANOSECONDS


class QueueLimits:
    """Refuses completions beyond the bounds of the queue.

    Open completions are bounded by their number, those that have not been scheduled
    yet also by the sum of their prompts' lengths. Not thread-safe.
    """

    def __init__(
        self, engines: EngineSet, config: SchedulerConfig, clock: Clock | None = None
    ) -> None:
        self._engines = engines
        self._max_running_each = config.max_num_seqs
        self._max_queued = config.max_num_queued_reqs
        self._max_tokens = config.max_num_queued_tokens or max(
            QUEUED_TOKENS, engines.first.facts.model.max_model_len
        )
        self._estimate = RetryEstimate(clock or SystemClock())

    def check(self, completions: int, prompt_tokens: int = 0) -> None:
        """Checks whether a request fits.

        Args:
            completions: Number of its completions.
            prompt_tokens: Sum of their prompts' lengths; 0 if it is not known yet.

        Raises:
            OverloadedError: It does not, with the time after which to try again.
        """
        if self._estimate.is_due:
            self._estimate.mark(self._engines.num_ended)
        max_open = self._max_running + self._max_queued
        if self._engines.num_open + completions > max_open:
            raise OverloadedError(max_open, self._retry_after())
        waiting = self._engines.num_waiting_tokens
        # A single long prompt is never refused by an empty queue.
        if waiting and waiting + prompt_tokens > self._max_tokens:
            raise QueuedTokensError(self._max_tokens, self._retry_after())

    @property
    def _max_running(self) -> int:
        """Completions that all engines together run; those of one if none does."""
        return self._max_running_each * max(1, len(self._engines.running))

    def _retry_after(self) -> int:
        waiting = self._engines.num_open - self._max_running
        return self._estimate.seconds(waiting, self._engines.num_ended)


class RetryEstimate:
    """Estimates how long a queue takes to empty, from how fast requests end."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._marks = [(clock.now(), 0)]

    @property
    def is_due(self) -> bool:
        """Whether the last `mark` is too old."""
        return self._clock.now() - self._marks[-1][0] > _WINDOW_NS

    def mark(self, ended: int) -> None:
        """Starts the next window; `ended` is as in `seconds`."""
        self._marks = [self._marks[-1], (self._clock.now(), ended)]

    def seconds(self, waiting: int, ended: int) -> int:
        """Returns whole seconds, from `SHORTEST_RETRY` to `LONGEST_RETRY`.

        Args:
            waiting: Number of waiting requests.
            ended: Number of requests that have ended since the start.
        """
        now = self._clock.now()
        # Between one and two windows old under load.
        since, ended_before = self._marks[0]
        rate = (ended - ended_before) * NANOSECONDS / max(now - since, 1)
        if rate <= 0:
            return LONGEST_RETRY if now - since > _WINDOW_NS else SHORTEST_RETRY
        return min(max(math.ceil(waiting / rate), SHORTEST_RETRY), LONGEST_RETRY)
