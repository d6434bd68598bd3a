"""Adapters whose later requests stay outside, so that they let their places go."""

from collections.abc import Iterable
from dataclasses import dataclass

from hookline.request import Request
from hookline_lora.scheduler.weights import Weights, has_started, remaining_tokens


@dataclass(frozen=True, slots=True)
class Drain:
    """An adapter that is drained.

    Attributes:
        claim: Digest of the adapter for which it is.
        until: Requests that came later, ns, stay outside.
    """

    claim: str
    until: int


class Draining:
    """Which adapters are drained, and for which claims.

    They are chosen anew whenever places are given, so that an adapter is drained for no
    longer than a claim needs its place; but those that are drained are preferred.
    """

    def __init__(self) -> None:
        self._drains: dict[str, Drain] = {}
        self._chosen: dict[str, Drain] = {}

    def renew(self) -> None:
        """Begins to choose anew."""
        self._chosen = {}

    def settle(self) -> None:
        """All that have not been chosen admit requests again."""
        self._drains = self._chosen

    def admits(self, weights: Weights, request: Request) -> bool:
        """Returns whether a request of weights with a slot may join the batch."""
        drain = self._drains.get(weights.digest)
        return drain is None or request.queued_at <= drain.until or has_started(request)

    def gives_way(self, holder: Weights, claim: Weights) -> bool:
        """Returns whether a holder of a place has served what comes before a claim."""
        return not holder.protected(self._until(holder, claim))

    def _until(self, holder: Weights, claim: Weights) -> int:
        """Returns until when requests must have come that a holder serves first.

        What came before the claim does; and what came before the holder got its slot,
        so that it has not got it in vain.
        """
        drain = self._drains.get(holder.digest)
        if drain is not None and drain.claim == claim.digest:
            return drain.until
        return max(claim.oldest, holder.granted_at)

    def candidates(self, holders: Iterable[Weights], claim: Weights) -> list[Weights]:
        """Returns the holders that can be drained for a claim, the best one first.

        Those that are drained already come first, then those whose requests end first.
        """
        drains = self._drains

        def order(holder: Weights) -> tuple[bool, bool, int]:
            drain = drains.get(holder.digest)
            is_own = drain is not None and drain.claim == claim.digest
            return not is_own, drain is None, remaining(holder)

        free = [each for each in holders if each.digest not in self._chosen]
        return sorted(free, key=order)

    def drain(self, holder: Weights, claim: Weights) -> None:
        """Drains a holder for a claim."""
        self._chosen[holder.digest] = Drain(claim.digest, self._until(holder, claim))


def remaining(weights: Weights) -> int:
    """Returns how many tokens the longest of their requests has yet to compute."""
    return max(map(remaining_tokens, weights.active.values()), default=0)
