"""Waits for adapters: while their weights were read, and while others had the slots."""

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

import msgspec

from hookline.clock import NANOSECONDS
from hookline_insight.account import Cause, Share
from hookline_insight.company import most
from hookline_insight.waits import divided
from hookline_metrics.adapters import ADAPTER_GATE, LORA, AdapterWait
from hookline_recording import Recording
from hookline_recording.recording import Gate


class _News(msgspec.Struct, array_like=True):
    """The begin of `LoraNews`; a recording without tokens has no texts."""

    waits: list[AdapterWait] = []


class AdapterWaits:
    """The waits for adapters in a recording."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    def intervals(
        self, request_id: int, gate: Gate
    ) -> Iterator[tuple[int, int, Cause, str]]:
        """Yields (begin, end, cause, adapter) of a wait; nothing if it is not told.

        It is told when it has ended, unless its request has ended then. Before it
        begins, the engine looks for the files of an adapter that it does not know.
        """
        if gate.name != ADAPTER_GATE or gate.until is None:
            return
        name, begin, end = self.adapter(request_id), gate.since, gate.until
        for wait in self._waits.get(request_id, ()):
            if wait.ended_at < begin or wait.began_at > end:
                continue
            begin = max(begin, wait.began_at)
            since = begin if wait.loading_from is None else wait.loading_from
            first = min(max(since, begin), end)
            last = min(first + round(wait.loading_seconds * NANOSECONDS), end)
            yield begin, first, Cause.ADAPTER_SLOT, name
            yield first, last, Cause.ADAPTER_LOADING, name
            yield last, end, Cause.ADAPTER_SLOT, name
            return

    def adapter(self, request_id: int) -> str:
        """Returns the name of a request's adapter; empty if it has none."""
        request = self._recording.requests.get(request_id)
        facts = None if request is None else request.facts
        return "" if facts is None else facts.adapter or ""

    def slot_shares(self, begin: int, end: int, name: str) -> list[Share]:
        """Divides a wait for a slot among the requests that computed with others."""
        steps = self._recording.steps
        first = max(0, bisect_right(self._planned_at, begin) - 1)
        holders = Counter[int]()
        for step in steps[first : bisect_left(self._planned_at, end)]:
            for request_id in step.request_ids or ():
                if self.adapter(request_id) not in ("", name):
                    holders[request_id] += 1
        shares = divided(Cause.ADAPTER_SLOT, most(holders), end - begin)
        return [replace(each, detail=name) for each in shares]

    @cached_property
    def _planned_at(self) -> list[int]:
        """When each step was planned; one whose plan is lost, with the one before."""
        found, last = list[int](), 0
        for step in self._recording.steps:
            last = last if step.planned is None else step.planned.at
            found.append(last)
        return found

    @cached_property
    def _waits(self) -> dict[int, list[AdapterWait]]:
        found = defaultdict[int, list[AdapterWait]](list)
        for state in self._recording.states:
            if state.news is None or (news := state.news.get(LORA)) is None:
                continue
            for wait in msgspec.convert(news, _News).waits:
                found[wait.request_id].append(wait)
        return found
