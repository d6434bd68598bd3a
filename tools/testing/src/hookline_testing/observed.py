"""A front end's accounting over a simulated engine, stepped on a virtual clock."""

from collections.abc import Sequence

from hookline.clock import NANOSECONDS, VirtualClock
from hookline.core.engine_core import EngineCore
from hookline.events import StepOutput
from hookline.finish_cause import Aborted
from hookline.frontend.client_request import ClientRequest, Completion, News
from hookline.frontend.input_processor import PreparedRequest
from hookline.frontend.output_processor import OutputProcessor
from hookline.frontend.text_stream import TextStream
from hookline.frontend.timeline import Timeline
from hookline.request import RequestFacts
from hookline.sampling_params import SamplingParams
from hookline.stats import FinishedRequest, IterationStats
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


class ObservedEngine:
    """A core and a front end's accounting of its outputs.

    Attributes:
        clock: The engine's clock.
        outputs: The front end's accounting.
        news: Outputs delivered to clients.
        iterations: Iteration statistics, one per output.
        finished: Finished requests by request id, from 1.
    """

    def __init__(
        self, core: EngineCore, clock: VirtualClock, *, is_detailed: bool = False
    ) -> None:
        self.clock = clock
        self.client = InprocClient(core, HEARTBEAT_SECONDS)
        self._here = FrontEndClock(clock)
        self.outputs = OutputProcessor(
            self._here, self.client.clock, is_detailed=is_detailed
        )
        self.news: list[News] = []
        self.iterations: list[IterationStats] = []
        self.finished: dict[int, FinishedRequest] = {}
        self._last_id = 0

    def submit(
        self, prompt: Sequence[int], params: SamplingParams, *, priority: int = 0
    ) -> ClientRequest:
        """Submits a client's request now."""
        prepared = PreparedRequest(
            prompt_token_ids=list(prompt),
            params=params,
            bad_words_token_ids=(),
            facts=RequestFacts(priority=priority),
            cache_salt=None,
        )
        request = ClientRequest(prepared, self.news.append, is_streamed=True)
        for index in range(params.n):
            self._last_id += 1
            text = TextStream(
                LetterDetokenizer(), params.stop, include_stop=False, min_tokens=0
            )
            timeline = Timeline(self._here.now(), len(prompt))
            request.completions.append(
                Completion(request, index, self._last_id, text, timeline)
            )
        self.outputs.add(request)
        for each in request.completions:
            self.client.add(prepared.child(each.index, each.request_id, ()))
        return request

    def abort(self, request: ClientRequest, cause: str = "client") -> None:
        """Aborts a request, as if its client disconnected now."""
        aborted = Aborted(cause)
        self.client.finish(self.outputs.abort(request, aborted), aborted)

    def receive(self) -> StepOutput | None:
        """Runs one engine step and processes its output."""
        output = self.client.receive(0.0)
        if output is not None:
            self.take(output)
        return output

    def take(self, output: StepOutput) -> IterationStats:
        """Processes an output of the engine, or a hand-made one."""
        iteration, stopped = self.outputs.take(output)
        for cause, request_ids in stopped.items():
            self.client.finish(request_ids, cause)
        self.iterations.append(iteration)
        for each in iteration.finished:
            self.finished[each.request_id] = each
        assert self.outputs.residue == 0
        return iteration

    def run(self) -> None:
        """Runs steps until the engine has no more outputs."""
        while self.receive() is not None:
            pass
