"""Gives places in main memory and in slots to the adapters that need them.

An adapter with requests or a loading that wait for it is a claim. Claims are served in
the order in which their oldest requests came, those first that have waited for longer
than `max_wait`. A place is taken from the adapter without requests that was used least
recently. If all have requests, a claim waits; once it has waited for too long, it gets
the next place: one of the adapters is drained for it, whose requests that came after
the claim, and after that adapter got its slot, stay outside until then.

So every wait is bounded. With N adapters, S slots, and at most R seconds for which a
request runs, a request waits at most `max_wait + ⌈N / S⌉ · (R + L)` seconds, where L is
the time in which workers read as many adapters as main memory holds: before a claim
that has waited for too long, each other adapter is served at most once, and in each
round each slot lets one adapter go. If bytes bound main memory, and not the number,
S is 1.
"""

from collections.abc import Callable, Iterable

from hookline.request import Request
from hookline_lora.scheduler.draining import Draining, remaining
from hookline_lora.scheduler.residency import Residency
from hookline_lora.scheduler.weights import Weights


class Placing:
    """Decides which adapters get places, and which let them go."""

    def __init__(
        self, residency: Residency, priority: Callable[[Request], int] = lambda _: 0
    ) -> None:
        """Begins without claims.

        Args:
            residency: The places.
            priority: Lower is served first, among claims that have not waited too long.
        """
        self._residency = residency
        self._priority = priority
        self._draining = Draining()
        self._memory_is_kept = False

    def admits(self, weights: Weights, request: Request) -> bool:
        """Returns whether a request may join the batch now, as far as slots matter."""
        return weights.is_ready and self._draining.admits(weights, request)

    def ages_at(self, claim: Weights) -> int:
        """Returns when a claim will have waited for too long, ns."""
        return claim.oldest + self._residency.capacity.max_wait_ns + 1

    def place(self, claims: Iterable[Weights], now: int) -> None:
        """Gives places to claims, as far as there are some."""
        self._draining.renew()
        self._memory_is_kept = False
        for claim in sorted(claims, key=lambda each: self._order(each, now)):
            is_aged = now >= self.ages_at(claim)
            claim.holder = ""
            if claim.is_resident or self._take_memory(claim, now, is_aged=is_aged):
                wants_slot = claim.waiting and claim.slot is None
                if wants_slot and (is_aged or claim.is_loaded):
                    self._take_slot(claim, now, is_aged=is_aged)
            else:
                self._memory_is_kept |= is_aged
        self._draining.settle()

    def _order(self, claim: Weights, now: int) -> tuple[int, int, int]:
        """Sort key of claims: whose turn it is."""
        if now >= self.ages_at(claim):
            return (0, 0, claim.oldest)
        waiting = claim.waiting.values()
        level = min((self._priority(wait.request) for wait in waiting), default=0)
        return (1, level, claim.oldest)

    # -- main memory -------------------------------------------------------------

    def _take_memory(self, claim: Weights, now: int, *, is_aged: bool) -> bool:
        """Has a claim's weights read, if they fit; evicts others for them."""
        if self._memory_is_kept:
            if is_aged:
                self._drain_for_memory(claim, [])
            return False
        residency = self._residency
        victims: list[Weights] = []
        for victim in self._memory_victims(claim, is_aged=is_aged):
            if residency.fits(claim, victims):
                break
            victims.append(victim)
        if not residency.fits(claim, victims):
            if is_aged:
                self._drain_for_memory(claim, victims)
            else:
                self._name_nearest(claim)
            return False
        for victim in victims:
            residency.memory_evictions += 1
            residency.drop(victim)
        residency.read(claim, now)
        return True

    def _memory_victims(self, claim: Weights, *, is_aged: bool) -> list[Weights]:
        """Returns whose weights may leave memory for a claim's, the first one first.

        Those without requests come first. A claim that has waited for too long may also
        have the memory of adapters without a slot whose requests came after it.
        """
        idle, later = [], []
        for each in self._residency.resident.values():
            if each.is_loading or each.is_pinned or each is claim:
                continue
            if self._gives_way(each, claim, is_aged=is_aged):
                idle.append(each)
            elif is_aged and each.slot is None and each.first_came > claim.oldest:
                later.append(each)
        later.sort(key=lambda each: each.first_came, reverse=True)
        return [*sorted(idle, key=_use), *later]

    def _gives_way(self, holder: Weights, claim: Weights, *, is_aged: bool) -> bool:
        """Returns whether a holder of a place has no requests that keep it."""
        if holder.is_idle():
            return True
        is_holder = is_aged and holder.slot is not None and holder is not claim
        return is_holder and self._draining.gives_way(holder, claim)

    def _drain_for_memory(self, claim: Weights, victims: list[Weights]) -> None:
        """Drains as many adapters as a claim needs to fit into memory.

        Those that could leave already stay without requests until the others can, too.
        """
        fits = self._residency.fits
        chosen = list(victims)
        for holder in self._candidates(claim):
            if fits(claim, chosen):
                break
            if not holder.is_pinned and holder not in chosen:
                chosen.append(holder)
        for holder in tuple(chosen):
            others = [each for each in chosen if each is not holder]
            if fits(claim, others):
                chosen = others
        for holder in chosen:
            self._drain(holder, claim)

    # -- slots -------------------------------------------------------------------

    def _take_slot(self, claim: Weights, now: int, *, is_aged: bool) -> None:
        """Gives a slot to a claim, or drains an adapter for it."""
        residency = self._residency
        slot = residency.free_slot
        if slot is None:
            victims = [
                each
                for each in residency.holders()
                if not each.is_loading and self._gives_way(each, claim, is_aged=is_aged)
            ]
            if not victims:
                self._wait_for_slot(claim, is_aged=is_aged)
                return
            victim = min(victims, key=_use)
            slot = victim.slot
            assert slot is not None
            residency.slot_evictions += 1
            residency.leave_slot(victim)
        residency.give_slot(claim, slot, now)

    def _wait_for_slot(self, claim: Weights, *, is_aged: bool) -> None:
        candidates = self._candidates(claim) if is_aged else []
        if candidates:
            self._drain(candidates[0], claim)
        else:
            self._name_nearest(claim)

    def _candidates(self, claim: Weights) -> list[Weights]:
        """Returns the adapters that can be drained for a claim, the best one first."""
        holders = [each for each in self._residency.holders() if not each.is_loading]
        return self._draining.candidates(holders, claim)

    def _drain(self, holder: Weights, claim: Weights) -> None:
        self._draining.drain(holder, claim)
        claim.wait_for(holder)

    def _name_nearest(self, claim: Weights) -> None:
        """Notes that a claim waits for the adapter whose requests end first."""
        holders = self._residency.holders()
        if holders:
            claim.wait_for(min(holders, key=remaining))


def _use(weights: Weights) -> tuple[bool, bool, int]:
    """Sort key of weights: those first that are likely not used soon."""
    return not weights.is_idle(), weights.slot is not None, weights.last_used
