"""Sends cases to a server from several clients at once, and counts what came of it."""

import asyncio
import threading
from collections import Counter, defaultdict
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from hookline_faults.fuzzing.case import Case
from hookline_faults.fuzzing.exchange import FuzzClient

MOST_FAULTS = 50
"""Maximum number of faults that are kept with their cases; all are counted."""


class Storm:
    """A thread with an event loop and its clients; for a `with` statement.

    Attributes:
        outcomes: How often cases of a kind ended in a way.
        faults: Cases after which the server did something wrong, and what.
        num_faults: Number of all such cases.
    """

    def __init__(self, host: str, port: int, *, num_clients: int = 32) -> None:
        self.outcomes: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.faults: list[tuple[Case, str]] = []
        self.num_faults = 0
        self._clients = [FuzzClient(host, port) for _ in range(num_clients)]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def send(self, cases: Sequence[Case]) -> None:
        """Sends cases from all clients; returns when all have ended."""
        sent = self._send(list(cases))
        asyncio.run_coroutine_threadsafe(sent, self._loop).result()

    async def _send(self, cases: list[Case]) -> None:
        async def work(client: FuzzClient) -> None:
            while cases:
                case = cases.pop()
                outcome = await client.send(case)
                self.outcomes[case.kind][outcome.label] += 1
                if outcome.fault is not None:
                    self.num_faults += 1
                    if len(self.faults) < MOST_FAULTS:
                        self.faults.append((case, outcome.fault))

        async with asyncio.TaskGroup() as tasks:
            for client in self._clients:
                tasks.create_task(work(client))

    async def _close(self) -> None:
        for client in self._clients:
            client.close()
        await asyncio.sleep(0.05)
