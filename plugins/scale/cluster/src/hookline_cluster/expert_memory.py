"""The memory of engines that share experts, which their owner makes for them.

It has no name: processes inherit it, and it goes with the last of them. Engines that
share experts live and die together, since none can compute a step alone; those that
replace them get new memory, in which all of them count from 0.
"""

import os
from collections.abc import Iterable

from hookline.transport.engine_client import EngineDied
from hookline_ranks.experts.links import ExpertLinks
from hookline_ranks.processes.ring import make_bell
from hookline_ranks.processes.shared_memory import make_memory


class ExpertMemory:
    """Gives each process of an engine its links; for the thread that starts them."""

    def __init__(self, indices: Iterable[int]) -> None:
        """Gets ready for engines of these indices; none if they share no experts."""
        self._indices = sorted(indices)
        self._generation = 0
        self._is_over = True
        self._members: dict[int, int] = {}
        self._reasons: dict[int, str] = {}
        self._descriptors: list[int] = []
        self._bells: tuple[int, ...] = ()

    def links(self, engine_index: int) -> ExpertLinks | None:
        """Returns the links of a process that is started now; None if it needs none.

        `started` must follow once it has inherited them.
        """
        if not self._indices:
            return None
        is_known = self._members.get(engine_index) == self._generation
        if self._is_over or is_known:
            self._renew()
        self._members[engine_index] = self._generation
        self._reasons.pop(engine_index, None)
        tokens, steps = self._descriptors
        place = self._indices.index(engine_index)
        return ExpertLinks(tokens=tokens, steps=steps, bells=self._bells, index=place)

    def started(self) -> None:
        """Closes what processes inherit, once all of them have."""
        if len(self._current) == len(self._indices):
            self._close_descriptors()

    def ended(self, death: EngineDied) -> list[int]:
        """Takes note that an engine's process has ended.

        Returns:
            The other engines whose processes share memory with it, and must end.
        """
        index = death.engine_index
        if (generation := self._members.pop(index, None)) is None:
            return []
        if generation == self._generation:
            self._is_over = True
        peers = [other for other, its in self._members.items() if its == generation]
        for peer in peers:
            self._reasons.setdefault(
                peer,
                f"engine {index}, which shares its experts, has ended: {death.reason}",
            )
        return peers

    def take_reason(self, engine_index: int) -> str | None:
        """Returns why an engine had to end; None if no other engine was the reason."""
        return self._reasons.pop(engine_index, None)

    def close(self) -> None:
        """Closes what no process has inherited yet; may be called twice."""
        self._close_descriptors()
        self._is_over = True

    @property
    def _current(self) -> list[int]:
        return [at for at, its in self._members.items() if its == self._generation]

    def _renew(self) -> None:
        self._close_descriptors()
        self._generation += 1
        self._is_over = False
        self._descriptors = [make_memory(), make_memory()]
        self._bells = tuple(make_bell() for _ in self._indices)

    def _close_descriptors(self) -> None:
        for descriptor in (*self._descriptors, *self._bells):
            os.close(descriptor)
        self._descriptors, self._bells = [], ()
