"""Several front ends and many engines, on one virtual time line."""

import random
from collections import Counter
from collections.abc import Iterator
from functools import partial

from hookline.clock import NANOSECONDS
from hookline.engine.commands import Command, EngineMessage
from hookline.events import StepOutput
from hookline.frontend.client_request import Delivery
from hookline.outputs import RequestOutput
from hookline.stats.scheduler_stats import Residue
from hookline.transport.engine_client import EngineInfo
from hookline_cluster.clients.client_table import ClientTable
from hookline_cluster.clients.output_split import split_output
from hookline_metrics import Recorder
from hookline_testing.cluster.engine import SimulatedEngine
from hookline_testing.cluster.events import Events
from hookline_testing.cluster.front_end import (
    LinkedClient,
    SimulatedFrontEnd,
    thousand_tokens,
)
from hookline_testing.cluster.spec import ClusterSpec
from hookline_testing.cluster.tally import Result, Tally
from hookline_testing.cluster.traffic import Arrival, Traffic


class Cluster:
    """Serves traffic; each request arrives at one of the front ends at random.

    Front ends, placement, schedulers and KV caches are the product's. The model, the
    links and the traffic are simulated. A front end knows of an engine what its outputs
    say, one link's time later.

    Attributes:
        front_ends: The front ends.
        tally: What has been measured so far.
    """

    def __init__(
        self,
        spec: ClusterSpec,
        traffic: Traffic,
        *,
        seed: int = 0,
        events: Events | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        """Builds it.

        Args:
            spec: What it consists of.
            traffic: What it serves.
            seed: Decides which front end gets a request.
            events: None makes a time line of its own.
            recorder: Records the metrics of the first front end.
        """
        self.tally = Tally(spec.engines)
        self._spec = spec
        self._traffic = traffic
        self._source = random.Random(seed)  # noqa: S311 - no secret
        self._events = events or Events()
        self._arrived = 0
        self._most = 0
        self._engines = [self._new_engine(index) for index in range(spec.engines)]
        self._secondary_clients = [ClientTable() for _ in self._engines]
        infos = {each.index: each.info for each in self._engines}
        tokenizer = thousand_tokens()
        self.front_ends = [
            SimulatedFrontEnd(
                LinkedClient(index, infos, self._post),
                spec.balancing,
                self._events.clock,
                tokenizer=tokenizer,
                recorder=None if index else recorder,
            )
            for index in range(spec.front_ends)
        ]

    def serve(self, requests: int) -> Result:
        """Serves so many requests to their ends; returns what was measured."""
        self._most = requests
        self._expect(self._traffic.arrivals())
        self._events.after(self._spec.sample_seconds, self._sample)
        while self.tally.ended < requests:
            self._events.run_next()
        self._audit()
        return self.tally.result(self._reasons())

    def replace_engine(self, index: int) -> EngineInfo:
        """Puts a new engine in the place of one without requests."""
        self._engines[index].end()
        self._engines[index] = self._new_engine(index)
        return self._engines[index].info

    def end_engine(self, index: int) -> None:
        """Ends an engine without requests, and its tap."""
        self._engines[index].end()

    def _new_engine(self, index: int) -> SimulatedEngine:
        return SimulatedEngine(index, self._spec, self._events, self._emit)

    # -- requests ----------------------------------------------------------------

    def _expect(self, arrivals: Iterator[Arrival]) -> None:
        """Lets the next request arrive at its time, and then expects the one after."""
        if (arrival := next(arrivals, None)) is None:
            return

        def arrive() -> None:
            self._arrive(arrival)
            if self._arrived < self._most:
                self._expect(arrivals)

        self._events.at(_nanoseconds(arrival.at), arrive)

    def _arrive(self, arrival: Arrival) -> None:
        if self._arrived == self._most:
            return
        self._arrived += 1
        front_end = self._source.choice(self.front_ends)
        engine_index = front_end.submit(
            arrival.prompt,
            arrival.max_tokens,
            arrival.client,
            lambda delivery: self._end(arrival, engine_index, delivery),
        )
        self.tally.open_by_engine[engine_index] += 1

    def _end(self, arrival: Arrival, engine_index: int, delivery: Delivery) -> None:
        assert isinstance(delivery, RequestOutput), delivery
        self.tally.end(arrival, engine_index, delivery)
        answer = delivery.outputs[0].token_ids
        now = self._events.clock.now() / NANOSECONDS
        if (following := self._traffic.following(arrival, answer, now)) is not None:
            at = _nanoseconds(following.at)
            self._events.at(at, partial(self._arrive, following))

    # -- messages ----------------------------------------------------------------

    def _post(self, engine_index: int, command: Command) -> None:
        engine = self._engines[engine_index]
        self._events.after(self._spec.link_seconds, partial(engine.deliver, command))

    def _emit(self, message: EngineMessage, at: int) -> None:
        """Sends each front end its part of an output, as an engine process does.

        The first front end owns the engines, the others are their secondary clients.
        """
        assert isinstance(message, StepOutput)
        self.tally.residue += message.stats.totals.residue != Residue()
        arrives = at + _nanoseconds(self._spec.link_seconds)
        clients = range(len(self.front_ends))
        secondary_clients = self._secondary_clients[message.engine_index]
        for index, part in split_output(message, clients):
            if index and not secondary_clients.concerns(index, part):
                continue
            self.tally.messages += 1
            self.tally.empty_messages += not part.events.new_tokens
            self._events.at(arrives, partial(self.front_ends[index].take, part))

    # -- measures ----------------------------------------------------------------

    def _sample(self) -> None:
        if self._most // 5 < self._arrived < self._most:  # neither filling nor draining
            self.tally.sample()
        self._audit()
        self._events.after(self._spec.sample_seconds, self._sample)

    def _audit(self) -> None:
        """Checks that received is finished and in flight, everywhere and in sum."""
        fronts = [each.front_end for each in self.front_ends]
        self.tally.residue += any(each.engines.residue for each in fronts)
        in_flight = sum(each.engines.num_unconfirmed for each in fronts)
        ended = sum(each.engines.num_ended for each in fronts)
        is_open = sum(self.tally.open_by_engine)
        self.tally.residue += self._arrived != ended + in_flight
        self.tally.residue += in_flight != is_open

    def _reasons(self) -> Counter[str]:
        reasons: Counter[str] = Counter()
        for each in self.front_ends:
            for _, reason, count in each.front_end.router.stats.requests:
                reasons[reason] += count
        return reasons


def _nanoseconds(seconds: float) -> int:
    return round(seconds * NANOSECONDS)
