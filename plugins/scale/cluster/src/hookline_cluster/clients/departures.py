"""Which secondary clients have yet to leave an engine that its owner wants to end."""

from collections.abc import Iterable


class Departures:
    """Counts the secondary clients of each engine that may have something open there.

    Not thread-safe.
    """

    def __init__(self) -> None:
        """Begins with engines that all stay."""
        self._last_number = 0
        self._numbers: dict[int, int] = {}
        self._awaited: dict[int, set[int]] = {}
        self._force_detached: dict[int, set[int]] = {}

    def expect(self, engine_index: int, clients: Iterable[int]) -> int:
        """Awaits secondary clients; returns the number of the wish that they fulfil."""
        self._last_number += 1
        self._numbers[engine_index] = self._last_number
        self._awaited[engine_index] = set(clients)
        return self._last_number

    def cancel(self, engine_index: int) -> bool:
        """Awaits nobody any more; returns whether anybody could have been."""
        self._awaited.pop(engine_index, None)
        return self._numbers.pop(engine_index, None) is not None

    def has_begun(self, engine_index: int) -> bool:
        """Whether an engine's secondary clients are to leave, or have left."""
        return engine_index in self._numbers

    def force_detached(self, client: int, engines: Iterable[int]) -> None:
        """Notes that engines are told to abort the requests of a client that has ended.

        Each of them confirms it.
        """
        for index in engines:
            self._force_detached.setdefault(index, set()).add(client)
        for awaited in self._awaited.values():
            awaited.discard(client)

    def left(self, engine_index: int, client: int, number: int | None) -> None:
        """Notes that a client has left for a wish, or by force if that is None."""
        if number is None:
            self._force_detached.get(engine_index, set()).discard(client)
        elif number == self._numbers.get(engine_index):
            self._awaited[engine_index].discard(client)

    def are_complete(self, engine_index: int) -> bool:
        """Whether no secondary client has anything open at the engine."""
        return not (
            self._awaited.get(engine_index) or self._force_detached.get(engine_index)
        )

    def process_ended(self, engine_index: int) -> None:
        """Expects no confirmations of a process that has ended."""
        self._force_detached.pop(engine_index, None)

    def forget(self, engine_index: int) -> None:
        """Forgets an engine."""
        self.cancel(engine_index)
        self.process_ended(engine_index)
