"""Counts what happens to adapters and to the requests that wait for them."""

from collections import Counter
from collections.abc import Iterable

from hookline.clock import NANOSECONDS
from hookline.engine.scheduler.extension_port import SchedulerPort
from hookline.frozen import frozen_map
from hookline.request import Request
from hookline_lora.messages import LoadedWeights
from hookline_lora.scheduler.registry import Registry
from hookline_lora.scheduler.residency import Residency
from hookline_lora.scheduler.weights import Wait, Weights, is_in_batch
from hookline_metrics.adapters import (
    MOST_RESIDENT_SHOWN,
    MOST_SHOWN,
    AdapterCounts,
    AdapterLevel,
    AdapterLoad,
    AdapterResidence,
    AdapterUsage,
    AdapterWait,
    LoraNews,
    LoraStats,
    LoraTotals,
)

_LEVELS = tuple(AdapterLevel)
_NONE = (0, 0)


class Account:
    """The account of an engine's adapters."""

    def __init__(self, registry: Registry, residency: Residency) -> None:
        self._registry = registry
        self._residency = residency
        self._port: SchedulerPort | None = None
        self._versions = (0, 0)
        self._residences: dict[str, AdapterResidence] = {}
        self._admitted: dict[int, tuple[int, int]] = {}
        self._loads = self._failures = self._waits = 0
        self._load_seconds = self._wait_seconds = 0.0

    def start(self, port: SchedulerPort) -> None:
        self._port = port

    @property
    def _news(self) -> LoraNews:
        assert self._port is not None, "nothing happens before the start"
        return self._port.news(LoraNews)

    # -- what happens ------------------------------------------------------------

    def waited(self, weights: Weights, wait: Wait, now: int) -> None:
        """A request's wait for its adapter is over."""
        loading = _overlap(weights, wait.since, now)
        self._waits += 1
        self._wait_seconds += (now - wait.since) / NANOSECONDS
        if now > wait.since:
            request = wait.request
            has_rest = now - wait.since > loading
            told = AdapterWait(
                request.request_id,
                name_of(request),
                wait.since,
                now,
                loading / NANOSECONDS,
                weights.last_holder if has_rest else "",
                max(weights.load_started_at or 0, wait.since) if loading else None,
            )
            self._news.waits.append(told)

    def loaded(self, weights: Weights, loaded: LoadedWeights) -> None:
        """Weights have been read."""
        self._loads += 1
        self._load_seconds += loaded.seconds
        name, digest = weights.ref.name, weights.digest
        load = AdapterLoad(name, digest, loaded.seconds, loaded.num_bytes)
        self._news.loads.append(load)

    def failed(self, weights: Weights, reason: str) -> None:
        """Weights could not be read."""
        self._failures += 1
        load = AdapterLoad(weights.ref.name, weights.digest, error=reason)
        self._news.loads.append(load)

    def admitted(self, request: Request, now: int) -> None:
        """A request has got its blocks, and joins the batch."""
        self._admitted[request.request_id] = now, len(request.block_ids)

    def ended(self, request: Request, now: int) -> None:
        """A request ends, and still has its blocks."""
        if (begun := self._admitted.pop(request.request_id, None)) is None:
            return
        since, first = begun
        mean = (first + len(request.block_ids)) / 2
        used = mean * (now - since) / NANOSECONDS
        digest = request.inner.adapter or ""
        usage = AdapterUsage(request.request_id, name_of(request), used, digest)
        self._news.usages.append(usage)

    # -- what there is -----------------------------------------------------------

    def tell_residency(self) -> None:
        """Tells where adapters are, if that has changed."""
        versions = self._registry.version, self._residency.version
        if versions == self._versions:
            return
        self._versions = versions
        residences = {
            ref.name: AdapterResidence(
                self._registry.weights[ref.digest].level, ref.is_pinned, ref.rank
            )
            for ref in self._registry.refs.values()
        }
        if len(residences) > MOST_RESIDENT_SHOWN:
            ordered = sorted(
                residences.items(), key=lambda item: _LEVELS.index(item[1].level)
            )
            residences = dict(ordered[:MOST_RESIDENT_SHOWN])
        if residences != self._residences:
            self._residences = residences
            self._news.residency = residences

    def stats(self) -> LoraStats:
        """Returns the adapters as they are now."""
        residency, registry = self._residency, self._registry
        resident = residency.resident.values()
        counted = self._counted()
        return LoraStats(
            version=registry.version,
            known=len(registry.refs),
            slots=residency.capacity.slots,
            slots_used=residency.num_slots_used,
            in_memory=sum(each.is_loaded for each in resident),
            most_in_memory=residency.capacity.most,
            memory_bytes=residency.num_bytes,
            loading=sum(each.is_loading for each in resident),
            totals=LoraTotals(
                self._loads,
                self._load_seconds,
                self._failures,
                residency.slot_evictions,
                residency.memory_evictions,
                self._waits,
                self._wait_seconds,
            ),
            adapters=frozen_map(dict(counted[:MOST_SHOWN])),
            others=_added(counts for _, counts in counted[MOST_SHOWN:]),
        )

    def _counted(self) -> list[tuple[str, AdapterCounts]]:
        """Returns adapters and their requests, those that have the most first."""
        running: Counter[str] = Counter()
        queued: Counter[str] = Counter()
        gated: dict[str, tuple[int, int]] = {}
        holders: dict[str, str] = {}
        for weights in self._registry.weights.values():
            for request in weights.active.values():
                (running if is_in_batch(request) else queued)[name_of(request)] += 1
            for wait in weights.waiting.values():
                name = name_of(wait.request)
                loading, rest = gated.get(name, _NONE)
                is_loading = weights.is_loading
                gated[name] = loading + is_loading, rest + (not is_loading)
                holders[name] = weights.holder
        totals = running + queued + Counter({n: sum(each) for n, each in gated.items()})
        return [
            (
                name,
                AdapterCounts(
                    running[name],
                    queued[name],
                    *gated.get(name, _NONE),
                    holders.get(name, ""),
                ),
            )
            for name, _ in totals.most_common()
        ]


def name_of(request: Request) -> str:
    """Returns the name by which a request has asked for its adapter."""
    return request.facts.lora or ""


def _added(every: Iterable[AdapterCounts]) -> AdapterCounts:
    """Returns the sums of the requests of adapters."""
    running = queued = loading = no_slot = 0
    for each in every:
        running += each.running
        queued += each.queued
        loading += each.loading
        no_slot += each.no_slot
    return AdapterCounts(running, queued, loading, no_slot)


def _overlap(weights: Weights, since: int, now: int) -> int:
    """Returns how long weights were being read between two times, ns."""
    if (began := weights.load_started_at) is None:
        return 0
    ended = now if weights.loaded_at is None else weights.loaded_at
    return max(0, min(ended, now) - max(began, since))
