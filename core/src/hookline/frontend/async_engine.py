"""Engines on an event loop: streams, aborts, calls, drain."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Self, TypeVar

from hookline.clock import NANOSECONDS, SystemClock
from hookline.config.engine import EngineConfig
from hookline.config.extensions import KV_TRANSFER
from hookline.engine.commands import EngineCommand
from hookline.engine_setup.failure import FailureBarrier
from hookline.exceptions import CommandTimeoutError, EngineDeadError
from hookline.finish_cause import Rejected
from hookline.front_end_parts import TransportStats
from hookline.frontend.calls import CALL_SECONDS
from hookline.frontend.front_end import FrontEnd
from hookline.frontend.input_processor import check_types
from hookline.frontend.observing import Observing
from hookline.frontend.output_stream import OutputStream
from hookline.frontend.queue_limits import QueueLimits
from hookline.frontend.reporting import FrontEndReporter, ReadPart
from hookline.frontend.starting import Connect, Observe, observe, start_front_end
from hookline.payloads import EngineFacts
from hookline.pooling import PoolingParams
from hookline.request import GenerateRequest, RequestFacts
from hookline.sampling_params import SamplingParams
from hookline.transport.engine_client import Received
from hookline_processes.watcher import Look, Watchdog

R = TypeVar("R")
T = TypeVar("T")
_RECEIVE_SECONDS = 0.2


class AsyncEngine:
    """A front end on an event loop, fed by one receiving thread.

    Attributes:
        facts: The model, sizes and limits; those of the first of several engines.
        model: Folder or name from which the model was loaded.
        failed: Set when the last engine dies.
    """

    def __init__(
        self, front_end: FrontEnd, config: EngineConfig, *, look: Look | None = None
    ) -> None:
        """Takes over a front end; use `start` to make both.

        Args:
            front_end: A front end whose engines are ready.
            config: Its configuration.
            look: Called several times per second in the thread that watches the
                engines, with the seconds since the last call as far as this process
                ran; None for nothing.
        """
        self._tokenizing = ThreadPoolExecutor(1, thread_name_prefix="tokenize")
        self._front_end = front_end
        self._limits = QueueLimits(front_end.engines, config.scheduler)
        self._clock = SystemClock()
        self._loop = asyncio.get_running_loop()
        self._is_closing = threading.Event()
        self._is_draining = False
        self._is_quiet = asyncio.Event()
        self._is_quiet.set()
        self._reporter = FrontEndReporter(
            self._loop, front_end.observers.front_end_changed
        )
        self.facts: EngineFacts = front_end.facts
        self.model = str(config.model.model)
        self.failed = asyncio.Event()
        self._receiver = threading.Thread(
            target=self._receive, name="engine-outputs", daemon=True
        )
        self._receiver.start()
        self._extension = front_end.extension
        self._watchdog = self._watch(look)

    @classmethod
    async def start(
        cls,
        config: EngineConfig,
        *,
        observe: Observe = observe,
        connect: Connect | None = None,
    ) -> Self:
        """Starts an engine without blocking the event loop.

        `observe` loads the loggers. With `connect`, it connects to engines that run.

        Raises:
            ConfigError: An option does not fit.
            ModelLoadError: The model cannot be loaded or served.
            RegistryError: A plugin is unknown or broken.
        """
        start = partial(start_front_end, config, observe=observe, connect=connect)
        return cls(await asyncio.to_thread(start), config)

    def _watch(self, look: Look | None) -> Watchdog:
        client = self._front_end.engines.client
        self.report(lambda: TransportStats(dropped=client.dropped))
        self.report(lambda: self._front_end.router.stats)
        looks = [] if look is None else [look]
        if self._extension is not None:
            for read in self._extension.serve(self._resize, self._post_call):
                self.report(read)
            looks.append(self._extension.watch)
        return Watchdog(looks)

    def capability(self, kind: type[T]) -> T | None:
        """Returns what an installed distribution lets a server do with the engines.

        Args:
            kind: A Protocol, such as `EngineNumber`.

        Returns:
            An object of that kind; None if there is none.
        """
        return None if self._extension is None else self._extension.capability(kind)

    @property
    def is_ready(self) -> bool:
        """Whether it accepts requests: it is neither dead nor being stopped."""
        is_ending = self._is_draining or self._is_closing.is_set()
        return not (is_ending or self._front_end.engines.failure)

    @property
    def ailment(self) -> str | None:
        """Why no engine answers; None while one does, however long its queue is."""
        if self.failure is not None:
            return f"the engine has failed: {self.failure}"
        if (death := self._front_end.engines.death) is not None:
            return f"the engine is being restarted: {death.reason}"
        stall = self._front_end.engines.stall
        return None if stall is None else f"the engine has stalled: {stall.reason}"

    @property
    def is_asleep(self) -> bool:
        """Whether all engines sleep."""
        return self._front_end.engines.is_asleep

    @property
    def failure(self) -> str | None:
        """Why the engine died; None while one lives."""
        return self._front_end.engines.failure

    async def submit(
        self,
        prompt: str | Sequence[int],
        params: SamplingParams,
        *,
        facts: RequestFacts | None = None,
        cache_salt: str | None = None,
        kv_transfer_params: dict[str, object] | None = None,
        is_streamed: bool = True,
        timeout_seconds: float | None = None,
        pooling: PoolingParams | None = None,
        data_parallel_rank: int | None = None,
    ) -> OutputStream:
        """Sends a request; the stream yields its outputs. It tokenizes in a thread.

        `kv_transfer_params` go to the KV connector, if the engine has one. With
        `pooling` it is embedded, and its only output has the `vectors`. After
        `timeout_seconds`, wherever it is, it ends with what it has: its finish reason
        is `timeout`. It goes to the engine `data_parallel_rank`, if given.

        Raises:
            RequestError: The request is invalid, or no engine has the given rank.
            OverloadedError: Too many are open.
            EngineDeadError: The engine is dead or being stopped.
        """
        arrived_at = self._clock.now()
        if self._is_closing.is_set():
            raise EngineDeadError("it was closed")
        prepare = partial(
            self._front_end.prepare,
            prompt,
            params,
            facts=facts,
            cache_salt=cache_salt,
            kv_transfer_params=kv_transfer_params,
            pooling=pooling,
        )
        request = await self._loop.run_in_executor(self._tokenizing, prepare)
        timeout_ns = None if timeout_seconds is None else timeout_seconds * NANOSECONDS
        return self._send(
            request,
            arrived_at,
            is_streamed=is_streamed,
            ends_at=None if timeout_ns is None else arrived_at + round(timeout_ns),
            data_parallel_rank=data_parallel_rank,
            prompt=prompt if isinstance(prompt, str) else None,
        )

    def add(
        self,
        request: GenerateRequest,
        *,
        arrived_at: int,
        is_streamed: bool = True,
        ends_at: int | None = None,
        data_parallel_rank: int | None = None,
    ) -> OutputStream:
        """Sends a request whose values have the types that they should have.

        Args:
            request: The request, as it comes from a client's handler.
            arrived_at: When it arrived, in ns on the system's monotonic clock.
            is_streamed: Whether its stream yields output with each step.
            ends_at: When it ends with what it has, wherever it is, on the same clock;
                its finish reason is `timeout`. None without limit.
            data_parallel_rank: Index of the engine that gets it; None for any.

        Raises:
            RequestError: The request is invalid, or no engine has the given rank.
            OverloadedError: Too many are open.
            EngineDeadError: The engine is dead or being stopped.
        """
        if self._is_closing.is_set():
            raise EngineDeadError("it was closed")
        if KV_TRANSFER in request.sections:  # any JSON
            check_types(request)
        return self._send(
            self._front_end.inputs.prepare(request),
            arrived_at,
            is_streamed=is_streamed,
            ends_at=ends_at,
            data_parallel_rank=data_parallel_rank,
        )

    def _send(
        self,
        request: GenerateRequest,
        arrived_at: int,
        *,
        is_streamed: bool,
        ends_at: int | None,
        data_parallel_rank: int | None,
        prompt: str | None = None,
    ) -> OutputStream:
        if self._is_draining and self._front_end.engines.failure is None:
            raise EngineDeadError("it is being stopped")
        n = request.params.n
        self._limits.check(n, n * len(request.prompt_token_ids))
        submit = partial(
            self._front_end.submit,
            request,
            arrived_at=arrived_at,
            is_streamed=is_streamed,
            ends_at=ends_at,
            to=data_parallel_rank,
            prompt=prompt,
        )
        stream = OutputStream(self._front_end, submit)
        self._is_quiet.clear()
        return stream

    def check_room(self, completions: int, prompt_tokens: int = 0) -> None:
        """Raises `OverloadedError` if this many more completions would be too many."""
        self._limits.check(completions, prompt_tokens)

    def reject(self, facts: RequestFacts, cause: Rejected) -> RequestFacts:
        """Counts a request that was refused before it reached the engine.

        Returns:
            The completed facts, as observers get them.
        """
        return self._front_end.reject(facts, cause)

    async def call(
        self, command: EngineCommand[R], *, timeout_seconds: float = CALL_SECONDS
    ) -> tuple[R, ...]:
        """Sends a command to every live engine and waits for the replies.

        Returns:
            One reply for each engine.

        Raises:
            CommandError: An engine refused the command.
            CommandTimeoutError: A reply did not come in time.
            EngineDeadError: An engine died, or all were dead.
        """
        replies = self._front_end.call(command)
        try:
            async with asyncio.timeout(timeout_seconds):
                return tuple([await asyncio.wrap_future(each) for each in replies])
        except TimeoutError:
            name = type(command).__name__
            raise CommandTimeoutError(name, timeout_seconds) from None
        finally:
            self._front_end.abandon(replies)

    @property
    def observers(self) -> Observing:
        """The loggers."""
        return self._front_end.observers

    def report(self, read: ReadPart) -> None:
        """Passes what `read` returns to the loggers, whenever it has changed.

        It is called once per second on the event loop and must not block.
        """
        self._reporter.add(read)

    async def drain(self, timeout_seconds: float) -> bool:
        """Refuses new requests and waits for open ones; False if some remain."""
        self._is_draining = True
        if self._extension is not None:
            self._extension.stop()
        try:
            await asyncio.wait_for(self._is_quiet.wait(), timeout_seconds)
        except TimeoutError:
            return False
        return True

    async def close(self) -> None:
        """Ends the engine, its threads and its loggers; may be called twice."""
        if self._is_closing.is_set():
            return
        self._is_closing.set()
        if self._extension is not None:
            await self._extension.close()
        await asyncio.to_thread(self._watchdog.close)
        self._reporter.close()
        await asyncio.to_thread(self._receiver.join)
        await asyncio.to_thread(self._front_end.engines.client.close)
        self._front_end.end_requests()  # streams belong to this thread
        self._is_quiet.set()
        await asyncio.to_thread(self._front_end.close)
        self._tokenizing.shutdown(wait=False)

    def _resize(self, engines: int) -> None:
        self.facts = replace(self.facts, data_parallel_size=engines)

    def _receive(self) -> None:
        """The receiving thread: passes all that comes to the event loop, in order."""
        client = self._front_end.engines.client
        with FailureBarrier(self._post_death):
            while not self._is_closing.is_set():
                received = client.receive(_RECEIVE_SECONDS)
                if received is not None:
                    self._front_end.engines.heard(received)
                    self._post(self._take, received)

    def _post_death(self, reason: str) -> None:
        self._post(self._die, reason)

    def _post(self, call: Callable[[T], None], argument: T) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call, argument)

    def _take(self, received: Received) -> None:
        with FailureBarrier(self._die):
            self._front_end.on_message(received)
        engines = self._front_end.engines
        if engines.failure is not None:
            self.failed.set()
        if not engines.num_unconfirmed:
            self._is_quiet.set()

    def _post_call(self, call: Callable[[], None]) -> None:
        self._post(self._call, call)

    def _call(self, call: Callable[[], None]) -> None:
        with FailureBarrier(self._die):
            call()

    def _die(self, reason: str) -> None:
        self._front_end.fail(reason)
        self.failed.set()
        self._is_quiet.set()
