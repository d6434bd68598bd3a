"""A front end's accounting over a simulated engine, stepped on a virtual clock."""

from collections.abc import Callable, Sequence

from hookline.clock import NANOSECONDS, VirtualClock
from hookline.engine.commands import (
    Add,
    Call,
    Command,
    Finish,
    Reply,
    ResetPrefixCache,
)
from hookline.engine.engine_core import EngineCore
from hookline.engine.engine_loop import EngineLoop
from hookline.events import Finished, StepOutput
from hookline.exceptions import EngineDeadError
from hookline.finish_cause import Aborted, Failed
from hookline.frontend.accounting import RequestAccounting
from hookline.frontend.client_request import ClientRequest, Delivery
from hookline.frontend.output_processor import OutputProcessor
from hookline.frontend.stop_strings import StopScope, StopSearch
from hookline.frontend.text_stream import TextStream
from hookline.request import GenerateRequest, RequestFacts
from hookline.sampling_values import SamplingValues
from hookline.stats.finished_request import FinishedRequest
from hookline.stats.iteration_stats import IterationStats
from hookline.transport.inproc_client import InprocClient

HEARTBEAT_SECONDS = 1e6


class LetterDetokenizer:
    """Each token is a different letter."""

    def push(self, token_ids: Sequence[int]) -> str:
        return "".join(chr(ord("a") + token_id % 26) for token_id in token_ids)

    def flush(self) -> str:
        return ""


class FrontEndClock:
    """Another process's clock: same speed as the engine's, another origin."""

    def __init__(self, engine: VirtualClock, ahead_seconds: float = 5000.0) -> None:
        self._engine = engine
        self._ahead = round(ahead_seconds * NANOSECONDS)

    def now(self) -> int:
        return self._engine.now() + self._ahead

    def wall(self) -> int:
        return self._engine.wall()

    def sleep(self, seconds: float) -> None:
        self._engine.sleep(seconds)


def letters(
    request: GenerateRequest, scope: StopScope = StopSearch
) -> list[TextStream]:
    """The text streams of a request's completions, of letters."""
    stop = request.params.stop
    return [
        TextStream(
            LetterDetokenizer(),
            scope(stop, include_stop=False) if stop else None,
            min_tokens=0,
        )
        for _ in range(request.params.n)
    ]


class ObservedEngine:
    """A core and a front end's accounting of its outputs.

    Attributes:
        clock: The engine's clock.
        accounting: The front end's accounting.
        news: Outputs delivered to clients.
        iterations: Iteration statistics, one per output.
        finished: Finished requests by request id, from 1.
    """

    def __init__(
        self, core: EngineCore, clock: VirtualClock, *, is_detailed: bool = False
    ) -> None:
        self.clock = clock
        self.client = InprocClient(EngineLoop(core, HEARTBEAT_SECONDS))
        self._here = FrontEndClock(clock)
        self.accounting = RequestAccounting(
            self._here, core.clock_pair(), is_detailed=is_detailed
        )
        self._outputs = OutputProcessor(self.accounting, self._here, letters)
        self.news: list[Delivery] = []
        self.iterations: list[IterationStats] = []
        self.finished: dict[int, FinishedRequest] = {}
        self._last_id = 0

    def submit(
        self,
        prompt: Sequence[int],
        params: SamplingValues,
        *,
        priority: int = 0,
        change: Callable[[GenerateRequest], GenerateRequest] = lambda request: request,
    ) -> ClientRequest:
        """Submits a client's request now, as `change` makes it."""
        first_id, self._last_id = self._last_id + 1, self._last_id + params.n
        request_ids = list(range(first_id, self._last_id + 1))
        request = GenerateRequest(
            request_id=first_id,
            prompt_token_ids=list(prompt),
            params=params,
            facts=RequestFacts(priority=priority),
        )
        request = change(request)
        self.send(Add(request, request_ids[1:]))
        client = ClientRequest(request, self.news.append, is_streamed=True)
        self._outputs.add(client, request_ids, self._here.now())
        return client

    def abort(self, request: ClientRequest, cause: str = "client") -> None:
        """Aborts a request, as if its client disconnected now."""
        aborted = Aborted(cause)
        self.send(Finish(self._outputs.abort(request, aborted), aborted))

    def reset_prefix_cache(self) -> None:
        """Sends the command; a state follows."""
        self.send(Call(0, 1, ResetPrefixCache()))

    def send(self, command: Command) -> None:
        self.client.send(0, command)

    def receive(self) -> StepOutput | None:
        """Runs one engine step and processes its output."""
        received = self.client.receive(0.0)
        while isinstance(received, Reply):
            received = self.client.receive(0.0)
        if received is None:
            return None
        assert isinstance(received, StepOutput)
        self.take(received)
        return received

    def take(self, output: StepOutput) -> IterationStats:
        """Processes an output of the engine, or a hand-made one."""
        iteration, stopped = self._outputs.on_step_output(output)
        for cause, request_ids in stopped.items():
            self.send(Finish(request_ids, cause))
        self.iterations.append(iteration)
        for each in iteration.finished:
            self.finished[each.request_id] = each
        assert self.accounting.residue == 0
        return iteration

    def end_all(self, cause: Failed) -> tuple[IterationStats, list[Finished]]:
        """Ends all requests, as if the engine died now."""
        return self._outputs.end_all(cause, EngineDeadError(cause.detail))

    def run(self) -> None:
        """Runs steps until the engine has no more outputs."""
        while self.receive() is not None:
            pass
