"""Time and tokens that one request loses to preemptions."""

from hookline.events import Preempted, Scheduled
from hookline.stats.finished_request import MAX_STALLS


class Preemptions:
    """The preemptions of one request; times are the engine's, in ns.

    Attributes:
        count: How often the request was preempted.
        total: Time from each preemption until the request was scheduled again or ended.
        before_first_token: The part of `total` before the first token.
        spans: (begin, end) of the first `MAX_STALLS` of these times.
        recomputed_tokens: Tokens computed again after preemptions.
    """

    __slots__ = (
        "_began_at",
        "_recompute_until",
        "before_first_token",
        "count",
        "recomputed_tokens",
        "spans",
        "total",
    )

    def __init__(self) -> None:
        self.count = 0
        self.total = 0
        self.before_first_token = 0
        self.spans: list[tuple[int, int]] = []
        self.recomputed_tokens = 0
        self._began_at: int | None = None
        self._recompute_until = 0

    def begin(self, event: Preempted) -> None:
        self.count += 1
        self._began_at = event.at
        # The next Scheduled counts the tokens again that were not recomputed yet.
        not_recomputed = self._recompute_until - event.computed_tokens
        self.recomputed_tokens -= max(0, not_recomputed)

    def resume(self, event: Scheduled, *, has_token: bool) -> None:
        """Ends the preemption under way, if any.

        Args:
            event: The first or a later admission of the request.
            has_token: Whether the request has its first token.
        """
        self.recomputed_tokens += event.recomputed_tokens
        cached = event.local_cached_tokens + event.external_cached_tokens
        self._recompute_until = cached + event.recomputed_tokens
        self.end(event.at, has_token=has_token)

    def first_token(self, at: int) -> None:
        """Notes the first token, which may come from a step before a preemption."""
        if self._began_at is not None:
            self.before_first_token += at - self._began_at

    def end(self, at: int, *, has_token: bool) -> None:
        """Ends the preemption under way, if any, such as at the request's end."""
        if self._began_at is None:
            return
        self.total += at - self._began_at
        if not has_token:
            self.before_first_token += at - self._began_at
        if len(self.spans) < MAX_STALLS:
            self.spans.append((self._began_at, at))
        self._began_at = None
