"""Everything between callers and engines, for one thread: `LLM` and `AsyncEngine`."""

from collections.abc import Collection, Sequence
from concurrent.futures import Future
from functools import partial
from itertools import count, islice, repeat
from typing import TypeVar

from msgspec.structs import replace

from hookline.clock import Clock, SystemClock
from hookline.config.extensions import KV_TRANSFER
from hookline.config.observers import ObserverConfig
from hookline.config.scheduler import SleepPolicy
from hookline.engine.commands import (
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
from hookline.frontend.accounting import RequestAccounting
from hookline.frontend.calls import PendingCalls, SleepOperations
from hookline.frontend.client_request import ClientRequest, Deliver, seconds_until
from hookline.frontend.engine_set import EngineSet, EngineState
from hookline.frontend.extension import Extend, FrontEndParts
from hookline.frontend.foreign_outputs import audited, checked
from hookline.frontend.input_processor import InputProcessor, check_types, completed
from hookline.frontend.observing import Observing
from hookline.frontend.output_processor import OutputProcessor
from hookline.frontend.request_ending import RequestEnding
from hookline.frontend.router import EngineRouter
from hookline.frontend.text_stream import make_text_streams
from hookline.payloads import EngineFacts
from hookline.pooling import POOLING, PoolingParams
from hookline.request import GenerateRequest, RequestFacts
from hookline.request_ids import first_id
from hookline.request_limits import check_token_lists
from hookline.sampling_params import SamplingParams
from hookline.sections import present
from hookline.tokenizer import Tokenizer
from hookline.transport.engine_client import (
    EngineClient,
    EngineDied,
    EngineInfo,
    Received,
)

R = TypeVar("R")
FLUSH_SECONDS = 5.0


class FrontEnd:
    """Sends callers' requests to engines, and the engines' outputs to their callers.

    Not thread-safe, except for `inputs` and `prepare`.

    Attributes:
        engines: The engines, and the state of each.
        extension: What an installed distribution adds; None if nothing does.
        inputs: Checks requests, and tokenizes.
        observers: The loggers.
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
        is_foreign: bool = False,
        is_alone: bool = True,
        extend: Extend | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._config = config = config or ObserverConfig()
        self._clock = clock = clock or SystemClock()
        self.tokenizer = tokenizer
        self._client_index = client.index
        self.engines = EngineSet(client, self._outputs_of, clock)
        self._is_closed = False
        self._refuses_asleep = sleep_policy is SleepPolicy.REFUSE
        self._is_foreign = is_foreign
        self._is_audited = is_foreign and is_alone
        self._calls = PendingCalls(client.index)
        parts = FrontEndParts(
            engines=self.engines, calls=self._calls, observers=observers, clock=clock
        )
        self.extension = extension = None if extend is None else extend(parts)
        self.router = extension.router if extension else EngineRouter(self.engines)
        self._look = extension.look if extension else None
        self.observers = observers = extension.observers if extension else observers
        self.inputs = InputProcessor(self.facts, tokenizer, config)
        if is_foreign:
            self.inputs.missing_processors = ()
        self._ids = count(first_id(client.index))
        self._sleep_operations = SleepOperations(clock, observers.front_end_changed)
        ending = extension.ending if extension else None
        self._ending = ending or RequestEnding(self.engines, self._calls, observers)
        for engine in self.engines:
            observers.started(engine.facts, engine.clock)

    def _outputs_of(self, info: EngineInfo) -> OutputProcessor:
        """Returns what delivers and accounts for the outputs of a new engine."""
        accounting = RequestAccounting(
            self._clock,
            info.clock,
            is_detailed=self._config.has_details,
            keep_prompts=self._config.keep_prompts,
            client_index=self._client_index,
        )
        make_texts = partial(make_text_streams, self.tokenizer)
        return OutputProcessor(accounting, self._clock, make_texts)

    @property
    def facts(self) -> EngineFacts:
        """Facts of the first engine; all engines serve the same model."""
        return self.engines.first.facts

    def prepare(
        self,
        prompt: str | Sequence[int],
        params: SamplingParams,
        *,
        facts: RequestFacts | None = None,
        cache_salt: str | None = None,
        kv_transfer_params: dict[str, object] | None = None,
        pooling: PoolingParams | None = None,
    ) -> GenerateRequest:
        """Makes a request of what a caller's Python code gives; tokenizes at once.

        With `pooling` the prompt is embedded, and nothing is generated.

        Raises:
            RequestError: The request cannot be served.
        """
        check_token_lists(
            self.facts.model.vocab_size,
            logit_bias=params.logit_bias,
            allowed_token_ids=params.allowed_token_ids or (),
            stop_token_ids=params.stop_token_ids,
        )
        request = GenerateRequest(
            prompt_token_ids=self.inputs.encode(prompt),
            params=params,
            facts=facts or RequestFacts(),
            cache_salt=cache_salt,
            sections=present(((POOLING, pooling), (KV_TRANSFER, kv_transfer_params))),
        )
        check_types(request)
        if params.bad_words:
            words = self.inputs.encode_words(params.bad_words)
            request = replace(request, bad_words_token_ids=words)
        return self.inputs.prepare(request)

    def submit(
        self,
        request: GenerateRequest,
        deliver: Deliver,
        *,
        arrived_at: int,
        is_streamed: bool,
        ends_at: int | None = None,
        to: int | None = None,
        prompt: str | None = None,
    ) -> ClientRequest:
        """Sends a request's completions to engine `to`, or to one that is chosen.

        Args:
            request: The request, prepared by `inputs`.
            deliver: Called with its outputs.
            arrived_at: When it arrived, in ns on the front end's clock.
            is_streamed: Whether there is output with each step.
            ends_at: When it ends with what it has, on the same clock; None without
                limit.
            to: Index of the engine; None lets the router choose.
            prompt: Text of the prompt, for its outputs.

        Raises:
            RequestError: No engine has the index `to`.
            EngineDeadError: All engines are dead, or `to` is.
            EngineSleepingError: The engine sleeps and refuses requests.
            EngineStalledError: The engine has been given up.
        """
        engine = self.router.place(request, to)
        if engine.stall is not None and engine.stall.is_final:
            raise EngineStalledError(engine.stall.reason)
        if self._refuses_asleep and engine.is_asleep:
            raise EngineSleepingError
        seconds_left: float | None = None
        if ends_at is not None:
            seconds_left = seconds_until(ends_at, self._clock.now())
        ids = list(islice(self._ids, request.params.n))
        request = replace(
            request,
            request_id=ids[0],
            eos_token_ids=engine.facts.model.eos_token_ids,
            timeout_seconds=seconds_left,
        )
        # Sent first: if it cannot be encoded, nothing is known of it.
        self.engines.send(engine, Add(request, ids[1:]))
        engine.vitals.unheard.extend(repeat(arrived_at, len(ids)))
        client = ClientRequest(
            request,
            deliver,
            is_streamed,
            engine_index=engine.index,
            is_named=to is not None,
            ends_at=ends_at,
            prompt=prompt,
        )
        engine.outputs.add(client, ids, arrived_at)
        return client

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
        engine, facts = self.engines.first, completed(facts, self._config)
        iteration = engine.accounting.reject(facts, cause)
        if self.observers.is_listening:
            output = StepOutput(engine.index, engine.stats_at, "rejected", engine.stats)
            self.observers.observe(output, iteration, {})
        return facts

    def call(self, command: EngineCommand[R]) -> list[Future[R]]:
        """Sends a command to each running engine.

        Returns:
            A future for each engine's reply, by the engines' order. `on_message`
            settles them: with the reply, a `CommandError` or an `EngineDeadError`.
            Pass them to `abandon` in the end.

        Raises:
            EngineDeadError: All engines are dead.
        """
        if (failure := self.engines.failure) is not None:
            raise EngineDeadError(failure)
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
        self._sleep_operations.start_call(command, futures)
        return futures

    def abandon(self, futures: Collection[Future[R]]) -> None:
        """Stops waiting for replies; those that came are not affected."""
        self._calls.abandon(futures)

    def on_message(self, received: Received) -> None:
        """Processes a message of an engine."""
        if isinstance(received, StepOutput):
            # Else it has left: these are its final messages.
            if (engine := self.engines.get(received.engine_index)) is not None:
                self._take_output(engine, received)
        elif isinstance(received, Reply):
            self._calls.settle(received)
        elif self.extension is not None:
            self.extension.on_news(received)
        elif isinstance(received, EngineDied):
            self._ending.fail(self.engines[received.engine_index], received.reason)
        if self._look is not None:
            self._look()

    def _take_output(self, engine: EngineState, output: StepOutput) -> None:
        if output.events.cache_changes is not None:
            self.router.cache_changed(output.engine_index, output.events.cache_changes)
        if self._is_foreign:
            known, size = engine.accounting.in_flight, engine.facts.model.vocab_size
            output, flaws = checked(output, known, size)
            for request_id, flaw in flaws.items():
                self.engines.send(engine, Finish([request_id], flaw))
        engine.update(output)
        facts = engine.accounting.facts_of(self.observers.observed_requests(output))
        iteration, stopped = engine.outputs.on_step_output(output)
        for cause, request_ids in stopped.items():
            self.engines.send(engine, Finish(request_ids, cause))
        if self._is_audited:
            engine.stats = audited(output.stats, engine.accounting)
            output = replace(output, stats=engine.stats)
        if self.observers.is_listening:
            self.observers.observe(output, iteration, facts)

    def fail(self, reason: str) -> None:
        """Ends every open request of every engine with an error."""
        for engine in self.engines.live:
            self._ending.fail(engine, reason)

    def close(self) -> None:
        """Ends engines, open requests and loggers; may be called twice."""
        if self._is_closed:
            return
        self._is_closed = True
        self.engines.client.close()
        self.end_requests()
        self.observers.close(FLUSH_SECONDS)

    def end_requests(self) -> None:
        """Ends open requests and calls after the client has been closed."""
        for engine in self.engines.live:
            self._ending.close(engine)
