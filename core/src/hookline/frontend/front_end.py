"""Everything between callers and engines, for one thread: `LLM` and `AsyncEngine`."""

from collections.abc import Collection, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import TypeVar

from hookline.clock import Clock, SystemClock
from hookline.config.observers import ObserverConfig
from hookline.config.scheduler import SleepPolicy
from hookline.config.supervision import SupervisionConfig
from hookline.core.commands import (
    Add,
    EngineCommand,
    Finish,
    Reply,
    ResetPrefixCache,
    Sleep,
    WakeUp,
)
from hookline.events import StepOutput
from hookline.exceptions import (
    EngineDeadError,
    EngineRestartingError,
    EngineSleepingError,
    EngineStalledError,
)
from hookline.finish_cause import Aborted, Rejected
from hookline.frontend.calls import PendingCalls
from hookline.frontend.client_request import ClientRequest, Deliver
from hookline.frontend.encoded_texts import TextEncoder
from hookline.frontend.engine_outputs import make_outputs
from hookline.frontend.engine_set import EngineSet, EngineState
from hookline.frontend.engine_watch import Stall
from hookline.frontend.extension import Extend, FrontEndParts
from hookline.frontend.input_processor import InputProcessor, PreparedRequest
from hookline.frontend.observing import Observing
from hookline.frontend.request_context import RequestContext
from hookline.frontend.router import EngineRouter
from hookline.frontend.sleep_operations import SleepOperations
from hookline.frontend.supervisor import Supervisor
from hookline.frontend.told_loggers import ToldLoggers
from hookline.payloads import EngineFacts
from hookline.pooling import PoolingParams
from hookline.request import RequestFacts
from hookline.request_ids import RequestIds
from hookline.sampling_params import SamplingParams
from hookline.text.bounds import TextBounds
from hookline.tokenizer import Tokenizer
from hookline.transport.engine_client import (
    EngineClient,
    EngineDied,
    EngineReplaced,
    Received,
)

R = TypeVar("R")
FLUSH_SECONDS = 5.0


class FrontEnd(ToldLoggers):
    """Sends callers' requests to engines, and the engines' outputs to their callers.

    Not thread-safe, except for `prepare`, which may run in any thread.

    Attributes:
        engines: The engines, and the state of each.
        extension: What an installed distribution adds; None if nothing does.
        router: Chooses engines for requests.
        tokenizer: The model's tokenizer.
    """

    def __init__(
        self,
        client: EngineClient,
        tokenizer: Tokenizer,
        observers: Observing,
        *,
        config: ObserverConfig | None = None,
        sleep_policy: SleepPolicy = SleepPolicy.WAIT,
        supervision: SupervisionConfig | None = None,
        extend: Extend | None = None,
        clock: Clock | None = None,
    ) -> None:
        config = config or ObserverConfig()
        clock = clock or SystemClock()
        supervision = supervision or SupervisionConfig()
        self.engines = EngineSet(
            client,
            partial(make_outputs, clock, config, tokenizer, client.index),
            clock,
            supervision.engine_restart,
        )
        self.tokenizer = tokenizer
        self._clock = clock
        self._is_closed = False
        self._refuses_asleep = sleep_policy is SleepPolicy.REFUSE
        self._calls = PendingCalls(client.index)
        extension = None if extend is None else extend(self._parts(observers))
        self.extension = extension
        self.router = extension.router if extension else EngineRouter(self.engines)
        self._look = extension.look if extension else None
        super().__init__(extension.observers if extension else observers)
        self._inputs = InputProcessor(self.facts, tokenizer)
        self._context = RequestContext(config)
        self._ids = RequestIds(client.index)
        observers = self._observers
        self._sleep_operations = SleepOperations(clock, observers.front_end_changed)
        policy = supervision.on_engine_stall
        self._supervisor = Supervisor(
            self.engines, self._calls, observers, policy, extension
        )
        for engine in self.engines:
            observers.started(engine.facts, engine.clock)

    def _parts(self, observers: Observing) -> FrontEndParts:
        return FrontEndParts(
            engines=self.engines,
            calls=self._calls,
            observers=observers,
            clock=self._clock,
            take_stall=self.take_stall,
            end=self._end_engine,
        )

    def _end_engine(self, engine: EngineState, reason: str) -> None:
        self._supervisor.fail(engine, reason)

    @property
    def facts(self) -> EngineFacts:
        """Facts of the first engine; all engines serve the same model."""
        return self.engines.first.facts

    @property
    def failure(self) -> str | None:
        """Why all engines are dead; None while one lives."""
        return self.engines.failure

    @property
    def text_bounds(self) -> TextBounds:
        """How long a prompt's text may be."""
        return self._inputs.text_bounds

    @property
    def num_unconfirmed(self) -> int:
        """Completions that no engine has confirmed to have ended."""
        return self.engines.num_unconfirmed

    @property
    def residue(self) -> int:
        """Requests unaccounted for in the front end; 0, or there is a bug."""
        return self.engines.residue

    def prepare(
        self,
        prompt: str | Sequence[int],
        params: SamplingParams,
        *,
        facts: RequestFacts | None = None,
        cache_salt: str | None = None,
        kv_transfer_params: dict[str, object] | None = None,
        encoder: TextEncoder | None = None,
        pooling: PoolingParams | None = None,
    ) -> PreparedRequest:
        """Checks and tokenizes, with the tokenizer unless there is an `encoder`.

        With `pooling` the request is embedded, and generates nothing.

        Raises:
            RequestError: The request cannot be served.
        """
        prepared = self._inputs.prepare(
            prompt,
            params,
            facts=facts or RequestFacts(),
            cache_salt=cache_salt,
            kv_transfer_params=kv_transfer_params,
            encoder=encoder,
            pooling=pooling,
        )
        return replace(prepared, facts=self._context.complete(prepared.facts))

    def submit(
        self,
        prepared: PreparedRequest,
        deliver: Deliver,
        *,
        arrived_at: int,
        is_streamed: bool,
        timeout_seconds: float | None = None,
        to: int | None = None,
    ) -> ClientRequest:
        """Sends a request's completions to engine `to`, or to one that is chosen.

        It ends with what it has `timeout_seconds` after `arrived_at`, if given.

        Raises:
            RequestError: No engine has the index `to`.
            EngineDeadError: All engines are dead, or `to` is.
            EngineSleepingError: The engine sleeps and refuses requests.
            EngineStalledError: The engine has been given up.
        """
        engine = self.router.place(prepared, to)
        if engine.stall is not None and self._supervisor.gives_up(engine.stall):
            raise EngineStalledError(engine.stall.reason)
        if self._refuses_asleep and engine.is_asleep:
            raise EngineSleepingError
        request = engine.outputs.add(
            prepared,
            deliver,
            [self._ids.next() for _ in range(prepared.params.n)],
            arrived_at=arrived_at,
            engine_index=engine.index,
            is_streamed=is_streamed,
            is_named=to is not None,
            timeout_seconds=timeout_seconds,
        )
        engine.sent(prepared.params.n, arrived_at)
        eos = engine.facts.eos_token_ids
        left = request.seconds_left(self._clock.now())
        first, *siblings = request.completions
        child = prepared.child(first.index, first.request_id, eos, left)
        ids = [each.request_id for each in siblings]
        self.engines.send(engine, Add(child, ids))
        return request

    def abort(self, request: ClientRequest, cause: str) -> None:
        """Ends a request for its client; does nothing once it has ended."""
        if (engine := self.engines.get(request.engine_index)) is None:
            return  # it has left, so all its requests have ended
        aborted = Aborted(cause)
        ids = engine.outputs.abort(request, aborted)
        if ids and engine.failure is None and engine.death is None:
            self.engines.send(engine, Finish(ids, aborted))

    def reject(self, facts: RequestFacts, cause: Rejected) -> RequestFacts:
        """Counts a request that reached no engine for the first; returns its facts."""
        engine = self.engines.first
        facts = self._context.complete(facts)
        iteration = engine.accounting.reject(facts, cause)
        if self._observers.is_listening:
            output = StepOutput(engine.index, engine.stats_at, "rejected", engine.stats)
            self._observers.observe(output, iteration, {})
        return facts

    def call(self, command: EngineCommand[R]) -> list[Future[R]]:
        """Sends a command to each running engine.

        Returns:
            A future for each engine's reply, by the engines' order. `take` settles
            them: with the reply, a `CommandError` or an `EngineDeadError`. Pass them to
            `abandon` in the end.

        Raises:
            EngineDeadError: All engines are dead.
        """
        if self.failure is not None:
            raise EngineDeadError(self.failure)
        futures = []
        if (death := self.engines.death) is not None:
            raise EngineRestartingError(death.reason)
        for engine in self.engines.running:
            call, future = self._calls.open(engine.index, command)
            futures.append(future)
            if isinstance(command, Sleep | WakeUp):
                engine.vitals.begin_slow_call(future)
            self.engines.send(engine, call)
        if isinstance(command, ResetPrefixCache | Sleep):
            for engine in self.engines:
                self.router.cache_lost(engine.index)
        self._sleep_operations.begin(command, futures)
        return futures

    def abandon(self, futures: Collection[Future[R]]) -> None:
        """Stops waiting for replies; those that came are not affected."""
        self._calls.abandon(futures)

    def take(self, received: Received) -> None:
        """Processes a message of an engine."""
        if isinstance(received, StepOutput):
            # Else it has left: these are its last words.
            if (engine := self.engines.get(received.engine_index)) is not None:
                self._take_output(engine, received)
        elif isinstance(received, Reply):
            self._calls.settle(received)
        elif isinstance(received, EngineDied | EngineReplaced):
            self._take_change(received)
        elif self.extension is not None:
            self.extension.take(received)
        if self._look is not None:
            self._look()

    def _take_change(self, received: EngineDied | EngineReplaced) -> None:
        index = received.engine_index
        if self.engines.get(index) is None:
            return  # it has left
        self.router.cache_lost(index)
        if isinstance(received, EngineDied):
            self._supervisor.take_death(received)
        else:
            self._supervisor.take_replacement(received)

    def _take_output(self, engine: EngineState, output: StepOutput) -> None:
        if output.cache_changes is not None:
            self.router.cache_changed(output.engine_index, output.cache_changes)
        engine.update(output)
        facts = engine.accounting.facts_of(self._observers.requests_told(output))
        iteration, stopped = engine.outputs.take(output)
        for cause, request_ids in stopped.items():
            self.engines.send(engine, Finish(request_ids, cause))
        if self._observers.is_listening:
            self._observers.observe(output, iteration, facts)

    def take_stall(self, engine_index: int, stall: Stall | None) -> None:
        """Takes the watchdog's verdict on an engine; None if it works again."""
        self._supervisor.take_stall(engine_index, stall)

    def fail(self, reason: str) -> None:
        """Ends every open request of every engine with an error."""
        for engine in self.engines.live:
            self._supervisor.fail(engine, reason)

    def close(self) -> None:
        """Ends engines, open requests and loggers; may be called twice."""
        if self._is_closed:
            return
        self._is_closed = True
        self.engines.client.close()
        self.end_requests()
        self._observers.close(FLUSH_SECONDS)

    def end_requests(self) -> None:
        """Ends open requests and calls after the client has been closed."""
        for engine in self.engines.live:
            self._supervisor.close(engine)
