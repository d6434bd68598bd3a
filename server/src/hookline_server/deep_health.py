"""Deep health: probes of the engine, few enough not to load it."""

import asyncio
import time

from hookline_server.engine import ServingEngine
from hookline_server.probe import ProbeResult

CACHED_SECONDS = 1.0
"""How long a result answers further questions."""


class DeepHealth:
    """Probes the engine, at most one probe at a time and one per second.

    Args:
        engine: The engine.
        timeout_seconds: Deadline of a probe.
    """

    def __init__(self, engine: ServingEngine, timeout_seconds: float) -> None:
        self._engine = engine
        self._timeout = timeout_seconds
        self._probing: asyncio.Task[tuple[ProbeResult, ...]] | None = None
        self._ended_at = 0.0

    async def results(self) -> tuple[ProbeResult, ...]:
        """Returns the result of each live engine's latest probe."""
        probing = self._probing
        if probing is None or (probing.done() and self._is_old):
            probe = self._engine.probe(self._timeout)
            probing = self._probing = asyncio.ensure_future(probe)
            probing.add_done_callback(self._end)
        # Whoever asked first may leave before the others.
        return await asyncio.shield(probing)

    @property
    def _is_old(self) -> bool:
        return time.monotonic() - self._ended_at > CACHED_SECONDS

    def _end(self, _: asyncio.Task[tuple[ProbeResult, ...]]) -> None:
        self._ended_at = time.monotonic()
