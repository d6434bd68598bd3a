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
        engines, estimate = self._engines, self._estimate
        if estimate.clock.now() > estimate.is_due_at:
            estimate.mark(engines.num_ended)
        # What all engines together run; what one does if none runs.
        max_running = self._max_running_each * max(1, len(engines.running))
        max_open = max_running + self._max_queued
        are_open = engines.num_open
        if are_open + completions > max_open:
            seconds = estimate.seconds(are_open - max_running, engines.num_ended)
            raise OverloadedError(max_open, seconds)
        waiting = engines.num_waiting_tokens
        # A single long prompt is never refused by an empty queue.
        if waiting and waiting + prompt_tokens > self._max_tokens:
            seconds = estimate.seconds(are_open - max_running, engines.num_ended)
            raise QueuedTokensError(self._max_tokens, seconds)


class RetryEstimate:
    """Estimates how long a queue takes to empty, from how fast requests end.

    Attributes:
        clock: The clock.
        is_due_at: When the next `mark` is due.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._marks = [(clock.now(), 0)]
        self.is_due_at = clock.now() + _WINDOW_NS

    def mark(self, ended: int) -> None:
        """Starts the next window; `ended` is as in `seconds`."""
        now = self.clock.now()
        self._marks = [self._marks[-1], (now, ended)]
        self.is_due_at = now + _WINDOW_NS

    def seconds(self, waiting: int, ended: int) -> int:
        """Returns whole seconds, from `SHORTEST_RETRY` to `LONGEST_RETRY`.

        Args:
            waiting: Number of waiting requests.
            ended: Number of requests that have ended since the start.
        """
        now = self.clock.now()
        # Between one and two windows old under load.
        since, ended_before = self._marks[0]
        rate = (ended - ended_before) * NANOSECONDS / max(now - since, 1)
        if rate <= 0:
            return LONGEST_RETRY if now - since > _WINDOW_NS else SHORTEST_RETRY
        return min(max(math.ceil(waiting / rate), SHORTEST_RETRY), LONGEST_RETRY)
