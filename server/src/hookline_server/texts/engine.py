"""An engine whose texts are processed in text processes, off the event loop."""

import asyncio

from hookline.config import EngineConfig
from hookline.frontend.async_engine import AsyncEngine
from hookline.frontend.front_end import FrontEnd
from hookline_server.loop_watch import LoopWatch
from hookline_server.memory_watch import MemoryWatch
from hookline_server.probe import ProbeResult
from hookline_server.probing import probe_engine
from hookline_server.process_watch import ProcessWatch
from hookline_server.texts.text_service import TextService


class TextEngine(AsyncEngine):
    """An engine of a server.

    Attributes:
        texts: Tokenizes, detokenizes and applies chat templates.
    """

    def __init__(self, front_end: FrontEnd, config: EngineConfig) -> None:
        """Takes over a front end, as `AsyncEngine` does; starts no text process yet."""
        loop_watch = LoopWatch(asyncio.get_running_loop())
        self.texts = TextService(front_end.tokenizer, front_end.inputs.text_bounds)
        memory_watch = MemoryWatch()
        # Whoever owns the engines has started all processes.
        owns_all = front_end.engines.client.owns_engines
        self._processes = processes = ProcessWatch() if owns_all else None

        def look(seconds: float) -> None:
            loop_watch.look(seconds)
            memory_watch.look(seconds)
            if processes is not None:
                processes.look(seconds)

        super().__init__(front_end, config, look=look)
        self.report(lambda: loop_watch.stats)
        self.report(lambda: memory_watch.stats)
        if processes is not None:
            self.report(lambda: processes.stats)

    async def start_texts(self) -> None:
        """Starts text processes, so that the first request need not wait for one."""
        await self.texts.start()
        if self._processes is not None:
            self._processes.renew()
        self.report(self.texts.stats)

    @property
    def unconfirmed_ends(self) -> dict[int, int]:
        """When completions ended for their clients that count as running, by id.

        Their engine has yet to say that it has ended them, as after a stop string.
        """
        return {
            request_id: account.ended_at
            for engine in self._front_end.engines
            for request_id, account in engine.accounting.in_flight.items()
            if account.ended_at is not None
        }

    def report_changes(self) -> None:
        """Passes on at once which parts have changed."""
        self._reporter.report()

    async def probe(self, timeout_seconds: float) -> tuple[ProbeResult, ...]:
        """Lets each live engine generate one token, whatever the limits of the queue.

        The requests count in all metrics; their client id is `health-probe`.
        """
        probes = [
            probe_engine(self._front_end, engine, self._clock, timeout_seconds)
            for engine in self._front_end.engines.staying
        ]
        return tuple(await asyncio.gather(*probes))

    async def close(self) -> None:
        """Also ends the text processes."""
        await super().close()
        await self.texts.close()
