"""What an engine tells observers of its adapters: a state, and what has happened."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

import msgspec

from hookline.clock import NANOSECONDS
from hookline.frozen import EMPTY
from hookline.sections import Section
from hookline.stats.scheduler_stats import SchedulerStats

LORA = "lora"
"""Name of the extension that serves adapters."""
ADAPTER_GATE = "adapter"
"""Name of the gate at which requests wait for their adapter."""
MOST_SHOWN = 64
"""Number of adapters with requests in `LoraStats`."""
MOST_RESIDENT_SHOWN = 1024
"""Number of adapters in `LoraNews.residency`."""


class AdapterLevel(StrEnum):
    """Where the weights of an adapter are; in vLLM's words."""

    SLOT = "gpu"
    MEMORY = "cpu"
    DISK = "disk"


class AdapterCounts(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The requests of an adapter.

    Attributes:
        running: Number of its requests in the batch.
        queued: Number of those that wait for something else than the adapter.
        loading: Number of those that wait until its weights have been read.
        no_slot: Number of those that wait for a slot, or for a place in main memory.
        holder: Name of an adapter that has the slot; empty if no request waits for it.
    """

    running: int = 0
    queued: int = 0
    loading: int = 0
    no_slot: int = 0
    holder: str = ""

    @property
    def waiting(self) -> int:
        """Number of its requests that wait, for whatever."""
        return self.queued + self.loading + self.no_slot


class LoraTotals(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What has happened to adapters since the engine's start.

    Attributes:
        loads: Number of times that weights were read into main memory.
        load_seconds: Seconds that it took, all together.
        load_failures: Number of times that it failed.
        slot_evictions: Number of adapters that left their slot for another.
        memory_evictions: Number of adapters that left main memory for another.
        waits: Number of requests that have waited at the gate.
        wait_seconds: Seconds that they have waited.
    """

    loads: int = 0
    load_seconds: float = 0.0
    load_failures: int = 0
    slot_evictions: int = 0
    memory_evictions: int = 0
    waits: int = 0
    wait_seconds: float = 0.0


class LoraStats(msgspec.Struct, frozen=True, array_like=True):
    """Section of `SchedulerStats`: the adapters at one moment.

    Attributes:
        version: Changes with every change of the adapters.
        known: Number of adapters that requests may use.
        slots: Number of slots.
        slots_used: Number of slots with an adapter.
        in_memory: Number of adapters in main memory, those in slots included.
        most_in_memory: Maximum of it; None if bytes alone bound it.
        memory_bytes: Bytes of their weights there.
        loading: Number of adapters that are being read.
        totals: Since the engine's start.
        adapters: Adapters with requests, by name; those `MOST_SHOWN` with the most.
        others: Sums over the adapters that `adapters` leaves out.
    """

    version: int = 0
    known: int = 0
    slots: int = 0
    slots_used: int = 0
    in_memory: int = 0
    most_in_memory: int | None = None
    memory_bytes: int = 0
    loading: int = 0
    totals: LoraTotals = LoraTotals()
    adapters: Mapping[str, AdapterCounts] = EMPTY
    others: AdapterCounts = AdapterCounts()

    def at_rest(self) -> "LoraStats":
        """Returns the same totals without adapters: the engine has ended."""
        return LoraStats(slots=self.slots, totals=self.totals)


class AdapterWait(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A request's wait for its adapter, which has ended.

    Attributes:
        request_id: The request.
        adapter: Name of its adapter.
        began_at: Monotonic ns.
        ended_at: Monotonic ns.
        loading_seconds: Seconds of it during which the weights were being read.
        holder: Name of an adapter for whose slot it waited the rest of the time; empty
            if that is not known, or there was no rest.
        loading_from: When that reading began, or the wait if that was later; monotonic
            ns, None without any.
    """

    request_id: int
    adapter: str
    began_at: int
    ended_at: int
    loading_seconds: float = 0.0
    holder: str = ""
    loading_from: int | None = None

    @property
    def seconds(self) -> float:
        """How long it took."""
        return (self.ended_at - self.began_at) / NANOSECONDS


class AdapterLoad(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An adapter that was read into main memory, or could not be.

    Attributes:
        adapter: Its name.
        digest: Its digest.
        seconds: How long it took; 0 if it failed.
        num_bytes: Bytes of its weights in memory.
        error: Why it failed; empty if it did not.
    """

    adapter: str
    digest: str
    seconds: float = 0.0
    num_bytes: int = 0
    error: str = ""


class AdapterUsage(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a request with an adapter has taken, once it ends.

    Attributes:
        request_id: The request.
        adapter: Name of its adapter.
        kv_block_seconds: Blocks of the KV cache times seconds, since its last
            admission; its blocks are taken to have grown evenly.
        digest: Digest of its adapter.
    """

    request_id: int
    adapter: str
    kv_block_seconds: float
    digest: str = ""


class AdapterResidence(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where the weights of an adapter are.

    Attributes:
        level: Where they are.
        is_pinned: Whether they stay in memory.
        rank: The adapter's rank.
    """

    level: AdapterLevel
    is_pinned: bool
    rank: int


class LoraNews(msgspec.Struct, array_like=True):
    """Section of an output: what has happened since the last one.

    Attributes:
        waits: Waits that have ended.
        loads: Adapters that were read, or could not be.
        usages: Requests that have ended after they had run.
        residency: Adapters that requests may use, by name, if there was a change; at
            most `MOST_RESIDENT_SHOWN`, those in slots and in memory first.
    """

    waits: list[AdapterWait] = []
    loads: list[AdapterLoad] = []
    usages: list[AdapterUsage] = []
    residency: dict[str, AdapterResidence] | None = None


ADAPTER_STATS = Section(LORA, LoraStats)
ADAPTER_NEWS = Section(LORA, LoraNews)

NO_ADAPTERS = LoraStats()


def adapters_of(stats: SchedulerStats) -> LoraStats:
    """Returns an engine's adapters; zeros if it serves none."""
    if (found := ADAPTER_STATS.read(stats.sections)) is None:
        return NO_ADAPTERS
    return found.at_rest() if stats.is_at_rest else found


@dataclass(frozen=True, slots=True)
class ServedAdapters:
    """The adapters with requests of all engines of a server.

    Attributes:
        slots: Number of slots of all engines.
        running: Names of those with running requests, sorted.
        waiting: Names of those with waiting requests, sorted.
        at: When that was so, in seconds since the epoch.
    """

    slots: int
    running: tuple[str, ...]
    waiting: tuple[str, ...]
    at: int

    @classmethod
    def of(cls, states: Iterable[SchedulerStats], at: int) -> Self:
        """Joins the states of engines."""
        found = [adapters_of(each) for each in states]
        every = [item for each in found for item in each.adapters.items()]
        return cls(
            slots=sum(each.slots for each in found),
            running=tuple(sorted({name for name, each in every if each.running})),
            waiting=tuple(sorted({name for name, each in every if each.waiting})),
            at=at,
        )
