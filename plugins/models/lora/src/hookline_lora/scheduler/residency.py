"""Which weights are in main memory and in the slots of a step.

An adapter with requests or a loading that wait for it is a claim. Claims are served in
the order in which their oldest requests came, those first that have waited for longer
than `max_wait`. A place is taken from the adapter without requests that was used least
recently. If all have requests, a claim waits; once it has waited for too long, one of
the adapters is drained for it: requests that came after the claim's, and after that
adapter got its slot, stay outside until the claim has been served. As every claim
before it is served once at most, and an adapter has its slot for no longer than its
requests take that came before it got it, each wait is bounded.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Self

from hookline.clock import NANOSECONDS
from hookline.request import Request
from hookline_lora.config import LoraConfig
from hookline_lora.messages import AdapterOrders
from hookline_lora.scheduler.weights import Weights, remaining_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """How many adapters there may be where.

    Attributes:
        slots: Adapters with which a step can compute.
        most: Adapters in main memory; None if bytes alone bound them.
        num_bytes: Bytes of main memory; None if the number alone bounds them.
        max_wait_ns: Wait after which a claim is served before others, ns.
    """

    slots: int
    most: int | None
    num_bytes: int | None
    max_wait_ns: int

    @classmethod
    def of(cls, config: LoraConfig) -> Self:
        """Returns what a configuration allows."""
        most = config.max_cpu_loras
        if most is None and config.memory is None:
            most = config.max_loras
        return cls(
            slots=config.max_loras,
            most=most,
            num_bytes=config.memory,
            max_wait_ns=round(config.max_wait * NANOSECONDS),
        )


@dataclass(slots=True)
class Orders:
    """Orders since the last plan, in the order in which workers follow them."""

    drop: list[str] = field(default_factory=list)
    load: dict[str, str] = field(default_factory=dict)
    fill: dict[int, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.drop or self.load or self.fill)


class Residency:
    """The places in main memory and in slots, and who has them.

    Attributes:
        capacity: How many there are.
        resident: Weights in main memory, or being read into it, by digest.
        slot_evictions: How many adapters have left a slot for another.
        memory_evictions: How many adapters have left main memory for another.
    """

    def __init__(
        self,
        capacity: Capacity,
        priority: Callable[[Request], int] = lambda _: 0,
    ) -> None:
        """Begins with empty places.

        Args:
            capacity: How many places there are.
            priority: Lower is served first, among claims that have not waited too long.
        """
        self.capacity = capacity
        self.resident: dict[str, Weights] = {}
        self.slot_evictions = self.memory_evictions = 0
        self._priority = priority
        self._slots: list[Weights | None] = [None] * capacity.slots
        self._orders = Orders()
        # Until when requests of adapters that are drained must have come, by digest.
        self._drained: dict[str, int] = {}
        self._drained_next: dict[str, int] = {}
        self._memory_is_kept = False

    # -- state -------------------------------------------------------------------

    @property
    def has_orders(self) -> bool:
        return bool(self._orders)

    @property
    def is_loading(self) -> bool:
        return any(each.is_loading for each in self.resident.values())

    @property
    def num_bytes(self) -> int:
        """Bytes of main memory that are taken."""
        return sum(each.ref.num_bytes for each in self.resident.values())

    @property
    def num_slots_used(self) -> int:
        return sum(each is not None and each.is_ready for each in self._slots)

    def take_orders(self) -> AdapterOrders | None:
        """Returns the orders since the last call; None if there are none."""
        if not (orders := self._orders):
            return None
        self._orders = Orders()
        return AdapterOrders(tuple(orders.drop), orders.load, orders.fill)

    def admits(self, weights: Weights, request: Request) -> bool:
        """Returns whether a request may join the batch now, as far as slots matter."""
        if not weights.is_ready:
            return False
        until = self._drained.get(weights.digest)
        if until is None or request.queued_at <= until:
            return True
        return request.num_cached_tokens is not None

    def is_aged(self, claim: Weights, now: int) -> bool:
        return now - claim.oldest > self.capacity.max_wait_ns

    def ages_at(self, claim: Weights) -> int:
        """Returns when a claim will have waited too long, ns."""
        return claim.oldest + self.capacity.max_wait_ns + 1

    def obstacle(self, claim: Weights) -> str:
        """Returns why a claim can never be in main memory; empty if it can."""
        if claim.is_resident:
            return ""
        pinned = [each for each in self.resident.values() if each.is_pinned]
        most, num_bytes = self.capacity.most, self.capacity.num_bytes
        if most is not None and len(pinned) >= most:
            return f"main memory has room for {most} adapters, which are all pinned"
        taken = sum(each.ref.num_bytes for each in pinned)
        if num_bytes is not None and taken + claim.ref.num_bytes > num_bytes:
            return (
                f"its weights have {claim.ref.num_bytes} bytes; --lora-memory is "
                f"{num_bytes}, of which pinned adapters take {taken}"
            )
        return ""

    # -- placing -----------------------------------------------------------------

    def preload(self, weights: Weights, now: int) -> None:
        """Has weights read, for whom no request waits, if there is room."""
        if weights.is_resident or not self._fits(weights, ()):
            return
        self._read(weights, now)
        free = (i for i, each in enumerate(self._slots) if each is None)
        if (slot := next(free, None)) is not None:
            self._slots[slot], weights.slot = weights, slot

    def place(self, claims: Iterable[Weights], now: int) -> None:
        """Gives places to claims, as far as there are some."""
        self._drained_next, self._memory_is_kept = {}, False
        for claim in sorted(claims, key=lambda each: self._order(each, now)):
            is_aged = self.is_aged(claim, now)
            claim.holder = ""
            if claim.is_resident or self._take_memory(claim, now, is_aged=is_aged):
                wants_slot = claim.waiting and claim.slot is None
                if wants_slot and (is_aged or claim.is_loaded):
                    self._take_slot(claim, now, is_aged=is_aged)
            else:
                self._memory_is_kept |= is_aged
        self._drained = self._drained_next

    def _order(self, claim: Weights, now: int) -> tuple[int, int, int]:
        """Sort key of claims: whose turn it is."""
        oldest = claim.oldest
        if self.is_aged(claim, now):
            return (0, 0, oldest)
        waiting = claim.waiting.values()
        level = min((self._priority(wait.request) for wait in waiting), default=0)
        return (1, level, oldest)

    def _take_memory(self, claim: Weights, now: int, *, is_aged: bool) -> bool:
        """Begins to read a claim's weights, if they fit; evicts others for them."""
        if self._memory_is_kept:
            return False
        victims: list[Weights] = []
        for victim in self._memory_victims(claim, now, is_aged=is_aged):
            if self._fits(claim, victims):
                break
            victims.append(victim)
        if not self._fits(claim, victims):
            if is_aged:
                self._drain_for_memory(claim, victims)
            return False
        for victim in victims:
            self.memory_evictions += 1
            self.drop(victim)
        self._read(claim, now)
        return True

    def _read(self, weights: Weights, now: int) -> None:
        """Has weights read into main memory, where they fit."""
        weights.is_resident = weights.is_loading = True
        weights.load_started_at, weights.loaded_at = now, None
        self.resident[weights.digest] = weights
        self._orders.load[weights.digest] = weights.ref.path

    def _fits(self, claim: Weights, victims: Iterable[Weights]) -> bool:
        """Returns whether a claim's weights fit once others have left."""
        left, number = self.num_bytes, len(self.resident)
        for victim in victims:
            left, number = left - victim.ref.num_bytes, number - 1
        most, num_bytes = self.capacity.most, self.capacity.num_bytes
        if most is not None and number >= most:
            return False
        return num_bytes is None or left + claim.ref.num_bytes <= num_bytes

    def _memory_victims(
        self, claim: Weights, now: int, *, is_aged: bool
    ) -> list[Weights]:
        """Returns whose weights may leave memory for a claim's, the first one first.

        Claims that come after it come last, and the youngest of them first.
        """
        order = self._order(claim, now)
        idle: list[Weights] = []
        later: list[Weights] = []
        for each in self.resident.values():
            if each.is_loading or each.is_pinned or each is claim:
                continue
            if self._gives_way(each, claim, is_aged=is_aged):
                idle.append(each)
            elif (
                each.slot is None
                and not each.active
                and self._order(each, now) > order
                and is_aged
            ):
                later.append(each)
        idle.sort(
            key=lambda each: (not each.is_idle(), each.slot is not None, each.last_used)
        )
        later.sort(key=lambda each: self._order(each, now), reverse=True)
        return [*idle, *later]

    def _gives_way(self, holder: Weights, claim: Weights, *, is_aged: bool) -> bool:
        """Returns whether a holder of a place has no requests that keep it."""
        if holder.is_idle():
            return True
        if not is_aged or holder.slot is None or holder is claim:
            return False
        return not holder.protected(self._until(holder, claim))

    def _until(self, holder: Weights, claim: Weights) -> int:
        """Returns until when requests must have come that a holder serves before."""
        until = self._drained.get(holder.digest)
        return max(claim.oldest, holder.granted_at) if until is None else until

    def _take_slot(self, claim: Weights, now: int, *, is_aged: bool) -> None:
        """Gives a slot to a claim, or drains one for it."""
        slot = next((i for i, each in enumerate(self._slots) if each is None), None)
        if slot is None:
            victims = [
                each
                for each in self._holders()
                if not each.is_loading and self._gives_way(each, claim, is_aged=is_aged)
            ]
            if not victims:
                self._wait_for_slot(claim, is_aged=is_aged)
                return
            victim = min(victims, key=_use)
            slot = victim.slot
            assert slot is not None
            self.slot_evictions += 1
            self._leave_slot(victim)
        self._slots[slot], claim.slot = claim, slot
        if claim.is_loaded:
            self._fill(claim, now)

    def _wait_for_slot(self, claim: Weights, *, is_aged: bool) -> None:
        if is_aged:
            self._drain(claim)
            return
        _name_holder(claim, min(self._holders(), key=_remaining, default=None))

    def _drain_for_memory(self, claim: Weights, victims: list[Weights]) -> None:
        """Drains as many adapters as a claim needs to fit into memory."""
        chosen = list(victims)
        while not self._fits(claim, chosen):
            if (drained := self._drain(claim)) is None:
                return
            if not drained.is_pinned:
                chosen.append(drained)

    def _drain(self, claim: Weights) -> Weights | None:
        """Drains one more adapter; None if all are drained already.

        One that is drained already is taken before others, among which it is that whose
        requests end first.
        """
        candidates = [
            each
            for each in self._holders()
            if each.digest not in self._drained_next and not each.is_loading
        ]
        if not candidates:
            _name_holder(claim, next(iter(self._holders()), None))
            return None
        drained = min(
            candidates,
            key=lambda each: (each.digest not in self._drained, _remaining(each)),
        )
        self._drained_next[drained.digest] = self._until(drained, claim)
        _name_holder(claim, drained)
        return drained

    def _holders(self) -> list[Weights]:
        return [each for each in self._slots if each is not None]

    def _fill(self, weights: Weights, now: int) -> None:
        assert weights.slot is not None
        weights.granted_at = weights.last_used = now
        self._orders.fill[weights.slot] = weights.digest

    # -- changes -----------------------------------------------------------------

    def loaded(self, weights: Weights, now: int) -> None:
        """Weights have been read into main memory."""
        weights.is_loading, weights.loaded_at = False, now
        weights.last_used = now
        if weights.slot is not None:
            self._fill(weights, now)

    def failed(self, weights: Weights, now: int) -> None:
        """Weights could not be read."""
        weights.is_loading = weights.is_resident = False
        weights.loaded_at = now
        self._leave_slot(weights)
        del self.resident[weights.digest]

    def drop(self, weights: Weights) -> None:
        """Has weights leave their slot and main memory; not while they are read."""
        assert not weights.is_loading
        if not weights.is_resident:
            return
        self._leave_slot(weights)
        weights.is_resident = False
        del self.resident[weights.digest]
        self._orders.drop.append(weights.digest)

    def _leave_slot(self, weights: Weights) -> None:
        if (slot := weights.slot) is None:
            return
        self._slots[slot] = weights.slot = None
        if self._orders.fill.get(slot) == weights.digest:
            del self._orders.fill[slot]
        self._drained.pop(weights.digest, None)
        self._drained_next.pop(weights.digest, None)


def _name_holder(claim: Weights, holder: Weights | None) -> None:
    """Notes for whose slot a claim waits."""
    if holder is not None:
        claim.holder = claim.last_holder = holder.ref.name


def _use(weights: Weights) -> tuple[bool, bool, int]:
    """Sort key of weights in memory: those first that are likely not used soon."""
    return not weights.is_idle(), weights.slot is not None, weights.last_used


def _remaining(weights: Weights) -> int:
    """Returns how many tokens the longest of its requests has yet to compute."""
    return max(map(remaining_tokens, weights.active.values()), default=0)
