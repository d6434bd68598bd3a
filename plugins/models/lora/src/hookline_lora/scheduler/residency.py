"""Which weights are in main memory and in slots, and what workers have to do for it."""

from collections.abc import Collection
from dataclasses import dataclass, field

from hookline_lora.messages import AdapterOrders
from hookline_lora.scheduler.capacity import Capacity
from hookline_lora.scheduler.weights import Weights


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
        version: Changes whenever an adapter comes or goes somewhere.
    """

    def __init__(self, capacity: Capacity) -> None:
        self.capacity = capacity
        self.resident: dict[str, Weights] = {}
        self.slot_evictions = self.memory_evictions = self.version = 0
        self._slots: list[Weights | None] = [None] * capacity.slots
        self._orders = Orders()

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
        return sum(each.is_ready for each in self.holders())

    @property
    def free_slot(self) -> int | None:
        """A slot without an adapter; None if there is none."""
        free = (slot for slot, each in enumerate(self._slots) if each is None)
        return next(free, None)

    def holders(self) -> list[Weights]:
        """Returns the weights that have a slot, or for which one is reserved."""
        return [each for each in self._slots if each is not None]

    def fits(self, weights: Weights, leaving: Collection[Weights] = ()) -> bool:
        """Returns whether weights would fit into memory once others have left it."""
        freed = sum(each.ref.num_bytes for each in leaving)
        return self.capacity.holds(
            len(self.resident) - len(leaving) + 1,
            self.num_bytes - freed + weights.ref.num_bytes,
        )

    def obstacle(self, weights: Weights) -> str:
        """Returns why weights can never be in main memory; empty if they can."""
        capacity = self.capacity
        if weights.is_resident:
            return ""
        pinned = [each for each in self.resident.values() if each.is_pinned]
        taken, own = sum(each.ref.num_bytes for each in pinned), weights.ref.num_bytes
        if capacity.holds(len(pinned) + 1, taken + own):
            return ""
        if capacity.most is not None and len(pinned) >= capacity.most:
            return (
                f"main memory has room for {capacity.most} adapters, which are all "
                "pinned"
            )
        return (
            f"its weights have {own} bytes; --lora-memory is {capacity.num_bytes}, of "
            f"which pinned adapters take {taken}"
        )

    def take_orders(self) -> AdapterOrders | None:
        """Returns the orders since the last call; None if there are none."""
        if not (orders := self._orders):
            return None
        self._orders = Orders()
        return AdapterOrders(tuple(orders.drop), orders.load, orders.fill)

    # -- changes -----------------------------------------------------------------

    def read(self, weights: Weights, now: int) -> None:
        """Has weights read into main memory, where they fit."""
        weights.is_resident = weights.is_loading = True
        weights.load_started_at, weights.loaded_at = now, None
        self.version += 1
        self.resident[weights.digest] = weights
        self._orders.load[weights.digest] = weights.ref.path

    def preload(self, weights: Weights, now: int) -> None:
        """Has weights read for which no request waits, if there is room."""
        if weights.is_resident or not self.fits(weights):
            return
        self.read(weights, now)
        if (slot := self.free_slot) is not None:
            self.give_slot(weights, slot, now)

    def loaded(self, weights: Weights, now: int) -> None:
        """Weights have been read into main memory."""
        self.version += 1
        weights.is_loading = False
        weights.loaded_at = weights.last_used = now
        for ticket in weights.tickets.values():
            ticket.is_ready = True
        if weights.slot is not None:
            self._fill(weights, weights.slot, now)

    def failed(self, weights: Weights, now: int) -> None:
        """Weights could not be read."""
        self.version += 1
        weights.is_loading = weights.is_resident = False
        weights.loaded_at = now
        self.leave_slot(weights)
        del self.resident[weights.digest]

    def give_slot(self, weights: Weights, slot: int, now: int) -> None:
        """Gives a free slot to weights; it is theirs once they have been read."""
        self._slots[slot], weights.slot = weights, slot
        if weights.is_loaded:
            self._fill(weights, slot, now)

    def _fill(self, weights: Weights, slot: int, now: int) -> None:
        self.version += 1
        weights.granted_at = weights.last_used = now
        self._orders.fill[slot] = weights.digest

    def leave_slot(self, weights: Weights) -> None:
        """Has weights leave their slot, if they have one."""
        if (slot := weights.slot) is None:
            return
        self.version += 1
        self._slots[slot] = weights.slot = None
        if self._orders.fill.get(slot) == weights.digest:
            del self._orders.fill[slot]

    def drop(self, weights: Weights) -> None:
        """Has weights leave their slot and main memory; not while they are read."""
        assert not weights.is_loading
        if not weights.is_resident:
            return
        self.leave_slot(weights)
        self.version += 1
        weights.is_resident = False
        del self.resident[weights.digest]
        self._orders.drop.append(weights.digest)
