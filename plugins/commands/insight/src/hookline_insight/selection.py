"""Chooses requests of recordings: the slowest, those of a tenant, missed objectives."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from hookline.clock import NANOSECONDS
from hookline_insight.account import Account
from hookline_insight.answers import Answer
from hookline_insight.explainer import Explainer
from hookline_insight.wording import Words

OBJECTIVES = ("ttft", "tpot", "e2e")
DEFAULT_COUNT = 10


@dataclass(frozen=True, slots=True)
class Selection:
    """Which requests are told of.

    Attributes:
        count: Maximum number of them, the slowest first.
        objective: Only those that missed this one.
        seconds: The objective's limit; None for what each request has.
        tenant: Only this tenant's.
    """

    count: int = DEFAULT_COUNT
    objective: str | None = None
    seconds: float | None = None
    tenant: str | None = None

    @classmethod
    def of(
        cls, slowest: int | None, misses: str | None, tenant: str | None
    ) -> Self | None:
        """Reads what is asked for; None if nothing is.

        Raises:
            ValueError: It cannot be understood.
        """
        if slowest is None and misses is None and tenant is None:
            return None
        if slowest is not None and slowest < 1:
            raise ValueError("--slowest must be 1 or more")
        objective, _, limit = (misses or "").partition("=")
        if objective and objective not in OBJECTIVES:
            raise ValueError(f"--misses is one of {', '.join(OBJECTIVES)}")
        try:
            seconds = float(limit) if limit else None
        except ValueError:
            raise ValueError("--misses OBJECTIVE=SECONDS needs a number") from None
        return cls(slowest or DEFAULT_COUNT, objective or None, seconds, tenant)

    def has(self, account: Account) -> bool:
        """Whether a request is one of them."""
        facts = account.facts
        if self.tenant is not None and (facts is None or facts.tenant != self.tenant):
            return False
        if self.objective is None:
            return True
        if self.seconds is None and account.misses is not None:
            return self.objective in account.misses
        taken, limit = self._taken(account), self._limit(account)
        return limit is not None and taken is not None and taken > limit

    def sentence(self, account: Account, words: Words) -> str:
        """Says why a request is one of them."""
        taken = self._taken(account)
        if self.objective is None or taken is None:
            return words.sentence(account)
        return words.missed(account, self.objective, taken, self._limit(account))

    def order(self, account: Account) -> float:
        """Returns how slow a request was, in s."""
        taken = self._taken(account) if self.objective is not None else None
        return account.latency / NANOSECONDS if taken is None else taken

    def _limit(self, account: Account) -> float | None:
        facts = account.facts
        if self.seconds is not None or self.objective is None:
            return self.seconds
        if facts is None or facts.slo is None:
            return None
        return facts.slo[OBJECTIVES.index(self.objective)]

    def _taken(self, account: Account) -> float | None:
        if self.objective == "ttft":
            # One that has no token yet has missed the objective all the same.
            ns = account.latency if account.ttft is None else account.ttft
            return ns / NANOSECONDS
        if self.objective == "e2e":
            return account.latency / NANOSECONDS
        if account.first_token_at is None or account.output_tokens < 2:
            return None
        decode = account.end - account.first_token_at
        return decode / NANOSECONDS / (account.output_tokens - 1)


def selected(selection: Selection, explainers: Iterable[Explainer]) -> list[Answer]:
    """Returns the accounts of the requests that are asked for, the slowest first."""
    found = [
        (selection.order(outline), request_id, explainer)
        for explainer in explainers
        for request_id in explainer.recording.requests
        if selection.has(outline := explainer.outline(request_id))
    ]
    found.sort(key=lambda each: -each[0])
    answers = []
    for _, request_id, explainer in found[: selection.count]:
        account, words = explainer.account(request_id), Words(explainer)
        answers.append(Answer(account, words, selection.sentence(account, words)))
    return answers
