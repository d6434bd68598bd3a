"""Everything between callers and an engine, for one thread: `LLM` and `AsyncEngine`."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import cast

import msgspec

from hookline.clock import Clock, SystemClock
from hookline.config import EngineConfig, ObserverConfig
from hookline.events import Finished, StepOutput
from hookline.exceptions import EngineDeadError
from hookline.finish_cause import Aborted, Failed, Rejected
from hookline.frontend.accounting import RequestAccounting
from hookline.frontend.client_request import ClientRequest, Deliver
from hookline.frontend.input_processor import InputProcessor, PreparedRequest
from hookline.frontend.observation import Observers
from hookline.frontend.output_processor import OutputProcessor
from hookline.frontend.request_context import RequestContext
from hookline.frontend.text_stream import make_text_stream
from hookline.metrics import Recorder
from hookline.models.description import find_folder
from hookline.pages import Routes
from hookline.payloads import HttpAnswered
from hookline.request import FinishReason, RequestFacts
from hookline.sampling_params import SamplingParams
from hookline.stats import SchedulerStats
from hookline.tokenizer import Tokenizer
from hookline.transport.engine_client import EngineClient
from hookline_registry import load_entry_point

Connect = Callable[[EngineConfig], EngineClient]
ENGINES_GROUP = "hookline.engines"
FLUSH_SECONDS = 5.0


class FrontEnd:
    """Turns callers' requests into the engine's, and its outputs into theirs.

    Not thread-safe but for `prepare`, which may run in any thread.

    Attributes:
        client: The engine.
        tokenizer: The model's.
        failure: Why the engine died; None while it lives.
    """

    def __init__(
        self,
        client: EngineClient,
        tokenizer: Tokenizer,
        observers: Observers,
        *,
        config: ObserverConfig | None = None,
        clock: Clock | None = None,
    ) -> None:
        config = config or ObserverConfig()
        self.client = client
        self.tokenizer = tokenizer
        self.failure: str | None = None
        self._is_closed = False
        self._clock = clock or SystemClock()
        self._observers = observers
        self._inputs = InputProcessor(client.facts, tokenizer)
        self._context = RequestContext(config)
        accounting = RequestAccounting(
            self._clock,
            client.clock,
            is_detailed=bool(config.detailed_traces),
            keep_prompts=config.keep_prompts,
        )
        self._accounting = accounting
        self._outputs = OutputProcessor(
            accounting, self._clock, partial(make_text_stream, tokenizer)
        )
        self._next_id = 1
        self._stats = SchedulerStats()
        self._stats_at = client.clock.monotonic
        observers.started(client.facts, client.clock)

    @property
    def num_unconfirmed(self) -> int:
        """Completions that the engine has not confirmed to have ended."""
        return self._accounting.num_in_flight

    @property
    def residue(self) -> int:
        """Of the front end's own conservation law: requests unaccounted for."""
        return self._accounting.residue

    @property
    def stats(self) -> SchedulerStats:
        """The engine's state as last heard."""
        return self._stats

    def prepare(
        self,
        prompt: str | Sequence[int],
        params: SamplingParams,
        *,
        facts: RequestFacts | None = None,
        cache_salt: str | None = None,
        kv_transfer_params: dict[str, object] | None = None,
    ) -> PreparedRequest:
        """Checks and tokenizes.

        Raises:
            RequestError: The request cannot be served.
        """
        prepared = self._inputs.prepare(
            prompt,
            params,
            facts=facts or RequestFacts(),
            cache_salt=cache_salt,
            kv_transfer_params=kv_transfer_params,
        )
        return replace(prepared, facts=self._context.complete(prepared.facts))

    def submit(
        self,
        prepared: PreparedRequest,
        deliver: Deliver,
        *,
        arrived_at: int,
        is_streamed: bool,
    ) -> ClientRequest:
        """Sends a request's completions to the engine.

        Raises:
            EngineDeadError: The engine is gone.
        """
        if self.failure is not None:
            raise EngineDeadError(self.failure)
        request = self._outputs.add(
            prepared,
            deliver,
            [self._next_request_id() for _ in range(prepared.params.n)],
            arrived_at=arrived_at,
            is_streamed=is_streamed,
        )
        eos = self.client.facts.eos_token_ids
        for completion in request.completions:
            self.client.add(
                prepared.child(completion.index, completion.request_id, eos)
            )
        return request

    def abort(self, request: ClientRequest, cause: str) -> None:
        """Ends a request for its client; does nothing once it has ended."""
        aborted = Aborted(cause)
        ids = self._outputs.abort(request, aborted)
        if ids and self.failure is None:
            self.client.finish(ids, aborted)

    def reject(self, facts: RequestFacts, cause: Rejected) -> None:
        """Counts a request that never reached the engine."""
        iteration = self._accounting.reject(facts, cause)
        if self._observers.is_listening:
            self._observers.ended_outside(
                "rejected", self._stats_at, self._stats, iteration
            )

    def take(self, output: StepOutput) -> None:
        """Takes one output of the engine in."""
        self._stats = output.stats
        self._stats_at = output.record.ended_at if output.record else output.at
        facts = self._accounting.facts_of(output) if self._observers.needs_facts else {}
        iteration, stopped = self._outputs.take(output)
        for cause, request_ids in stopped.items():
            self.client.finish(request_ids, cause)
        if self._observers.is_listening:
            self._observers.output(output, iteration, facts)

    def fail(self, reason: str) -> None:
        """The engine died: ends every open request with an error, and tells."""
        if self.failure is None:
            self.failure = reason
            events = self._end_all(Failed(reason), "failed")
            errors = sum(event.reason is FinishReason.ERROR for event in events)
            self._observers.failed(reason, errors)

    def _end_all(self, cause: Aborted | Failed, state: str) -> Sequence[Finished]:
        # What was on its way when the engine ended counts as received, and as ended.
        received = self._stats.received + self._accounting.num_unheard
        rest = self._stats.at_rest()
        self._stats = msgspec.structs.replace(rest, received=received)
        iteration, events = self._outputs.end_all(cause)
        facts = {each.request_id: each.facts for each in iteration.finished}
        self._observers.ended_outside(
            state,
            self._stats_at,
            self._stats,
            iteration,
            events=tuple(events),
            facts=facts,
        )
        return events

    def reset_prefix_cache(self) -> None:
        self.client.reset_prefix_cache()

    def add_routes(self, routes: Routes) -> None:
        self._observers.add_routes(routes)

    @property
    def needs_http(self) -> bool:
        """Whether any logger wants to hear of answered HTTP requests."""
        return self._observers.needs_http

    def http_answered(self, answered: HttpAnswered) -> None:
        """A server has answered requests."""
        self._observers.http_answered(answered)

    def flush(self, timeout_seconds: float) -> bool:
        """Waits until every logger has heard what was told; False if one has not."""
        return self._observers.flush(timeout_seconds)

    def close(self) -> None:
        """Ends the engine, open requests and the loggers; may be called twice."""
        if self._is_closed:
            return
        self._is_closed = True
        self.client.close()
        self.end_requests()
        self._observers.close(FLUSH_SECONDS)

    def end_requests(self) -> None:
        """Ends what is open when the engine has been closed."""
        if self.failure is None:
            self.failure = "it was closed"
            self._end_all(Aborted("the engine was closed"), "drain")
            self._observers.stopped("closed")

    def _next_request_id(self) -> int:
        request_id, self._next_id = self._next_id, self._next_id + 1
        return request_id


def start_front_end(config: EngineConfig, recorder: Recorder | None = None) -> FrontEnd:
    """Loads loggers, tokenizer and engine, cheapest first, so that errors come early.

    A recorder is fed besides the loggers.

    Raises:
        ConfigError: An option does not fit.
        ModelLoadError: The model cannot be loaded or served.
        RegistryError: A plugin is unknown or broken.
    """
    observers = Observers(config, recorder)
    try:
        connect = cast("Connect", load_entry_point(ENGINES_GROUP, config.engine))
        source = config.model.tokenizer
        folder = Path(source) if source else find_folder(config.model.model)
        tokenizer, client = _start_both(connect, config, folder)
    except BaseException:
        observers.close(FLUSH_SECONDS)
        raise
    return FrontEnd(client, tokenizer, observers, config=config.observers)


def _start_both(
    connect: Connect, config: EngineConfig, folder: Path
) -> tuple[Tokenizer, EngineClient]:
    """Loads the tokenizer while the engine starts."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        loading = pool.submit(Tokenizer.load, folder)
        client = connect(config)
    if (error := loading.exception()) is not None:
        client.close()
        raise error
    return loading.result(), client
