"""The completions of one client's request, seen as one operation."""

from dataclasses import dataclass

from hookline.stats.finished_request import FinishedRequest
from hookline_otel.outcome import error_type, is_rejected


@dataclass(frozen=True, slots=True)
class Completions:
    """All completions of a request, or a rejected request alone.

    Attributes:
        all: The completions by their index, at least one.
    """

    all: tuple[FinishedRequest, ...]

    @property
    def first(self) -> FinishedRequest:
        """The completion that stands for what all have in common."""
        return self.all[0]

    @property
    def slowest(self) -> FinishedRequest:
        """The completion that took longest; its intervals add up to the request's."""
        return max(self.all, key=lambda each: each.e2e_seconds)

    @property
    def failed(self) -> FinishedRequest | None:
        """The first completion that ended with an error, if any."""
        return next((each for each in self.all if error_type(each)), None)

    @property
    def is_rejected(self) -> bool:
        return is_rejected(self.first)

    @property
    def has_several(self) -> bool:
        return len(self.all) > 1

    @property
    def error_type(self) -> str | None:
        """The conventions' `error.type`; None without an error."""
        return None if self.failed is None else error_type(self.failed)

    @property
    def response_id(self) -> str:
        """Id that the client got with the response; offline, with the output."""
        facts = self.first.facts
        return facts.response_id or facts.client_id or str(self.first.request_id)

    @property
    def output_tokens(self) -> int:
        return sum(each.output_tokens for each in self.all)

    @property
    def ttft_seconds(self) -> float | None:
        """Time from arrival to the first token of any completion."""
        known = [
            each.ttft_seconds for each in self.all if each.ttft_seconds is not None
        ]
        return min(known, default=None)
