"""The part `cost` of `cluster.py`: what a front end's work costs as engines grow."""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from hookline.engine.commands import Add, Command, EngineMessage
from hookline.events import StepOutput
from hookline.frozen import plain
from hookline.request import GenerateRequest
from hookline.sampling_params import SamplingParams
from hookline_cluster.clients.output_split import split_output
from hookline_cluster.config import LoadBalancing
from hookline_process_engine.messages import Output
from hookline_testing.cluster.engine import SimulatedEngine
from hookline_testing.cluster.events import Events
from hookline_testing.cluster.front_end import (
    LinkedClient,
    SimulatedFrontEnd,
    thousand_tokens,
)
from hookline_testing.cluster.spec import ClusterSpec

SIZES = (2, 4, 16, 64)
PROMPT_TOKENS = 1024
REQUESTS = 200
RUNNING = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Microseconds of processor time with a number of engines, and bytes.

    Attributes:
        score: To place a request by score.
        prefix: To place a request by prefix that no engine has cached.
        cached: The same where every engine has all of its prompt.
        output: To take in a step's output with one token for each of 16 requests.
        bytes: Size of such an output.
        state_bytes: Size of an output with the engine's state alone.
    """

    engines: int
    score: float
    prefix: float
    cached: float
    output: float
    bytes: int
    state_bytes: int


class Bench:
    """A front end and simulated engines, which the benchmark steps itself."""

    def __init__(self, engines: int, balancing: LoadBalancing) -> None:
        spec, self._events = ClusterSpec(engines=engines), Events()
        self.outputs: list[StepOutput] = []
        self._engines = [
            SimulatedEngine(index, spec, self._events, self._emit)
            for index in range(engines)
        ]
        infos = {each.index: each.info for each in self._engines}
        self.front = SimulatedFrontEnd(
            LinkedClient(0, infos, self._post),
            balancing,
            self._events.clock,
            tokenizer=thousand_tokens(),
        )
        self._source = random.Random(1)  # noqa: S311 - no secret

    def prompts(self, count: int) -> list[GenerateRequest]:
        return [
            self.front.front_end.prepare(
                list(self._source.randbytes(PROMPT_TOKENS)),
                SamplingParams(max_tokens=32, ignore_eos=True),
            )
            for _ in range(count)
        ]

    def run(self) -> None:
        """Lets the engines serve 16 requests each, which collects their outputs."""
        for prepared in self.prompts(RUNNING * len(self._engines)):
            self.front.front_end.submit(
                prepared, lambda _: None, arrived_at=0, is_streamed=True
            )
        while len(self.outputs) < 20 * len(self._engines):
            self._events.run_next()

    def _post(self, engine_index: int, command: Command) -> None:
        if isinstance(command, Add):
            self._engines[engine_index].deliver(command)

    def _emit(self, message: EngineMessage, at: int) -> None:
        del at
        assert isinstance(message, StepOutput)
        self.outputs.append(message)


def microseconds(calls: Sequence[Callable[[], object]]) -> float:
    """Returns the mean processor time of calls."""
    began = time.process_time()
    for call in calls:
        call()
    return 1e6 * (time.process_time() - began) / len(calls)


def cost(engines: int) -> Cost:
    """Measures one number of engines and prints it."""
    score, prefix = (
        Bench(engines, each) for each in (LoadBalancing.SCORE, LoadBalancing.PREFIX)
    )
    place = prefix.front.front_end.router.place
    prompts = prefix.prompts(REQUESTS)
    new = microseconds([lambda each=each: place(each) for each in prompts])  # type: ignore[misc]
    for index in range(engines):
        place(prompts[0], index)
    known = microseconds([lambda: place(prompts[0])] * REQUESTS)
    by_score = score.front.front_end.router.place
    least = microseconds([lambda each=each: by_score(each) for each in prompts])  # type: ignore[misc]
    score.run()
    full = [each for each in score.outputs if len(each.events.new_tokens) == RUNNING]
    [_, (_, empty)] = split_output(full[0], [0, 1])
    sizes = [
        len(msgspec.msgpack.encode(Output(each), enc_hook=plain))
        for each in (full[0], empty)
    ]
    taking = microseconds([lambda each=each: score.front.take(each) for each in full])  # type: ignore[misc]
    found = Cost(
        engines=engines,
        score=least,
        prefix=new,
        cached=known,
        output=taking,
        bytes=sizes[0],
        state_bytes=sizes[1],
    )
    print(found, flush=True)
    return found
