"""From events to metrics: each case of a request's life, as exact numbers.

A simulated engine runs on a clock that only its steps move, a second each. Every
histogram's count, sum and filled buckets stand in the table below.
"""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from hookline.clock import NANOSECONDS, VirtualClock
from hookline.config import (
    CacheConfig,
    DetailedTrace,
    EngineConfig,
    ObserverConfig,
    SchedulerConfig,
)
from hookline.config.extensions import GRAMMARS, KV_TRANSFER
from hookline.events import Finished, NewTokens, Queued, Scheduled, StepOutput
from hookline.finish_cause import LengthReached
from hookline.outputs import RequestOutput
from hookline.payloads import EngineStarted, StateChanged, StepFinished
from hookline.sampling_params import SamplingParams
from hookline.stats.iteration_stats import IterationStats
from hookline_metrics import CATALOGUE, HistogramValue, Kind, Recorder
from hookline_metrics.config import MetricsConfig
from hookline_metrics.connector_events import (
    ConnectorEvent,
    ConnectorLookup,
    TierAllocation,
    TierLookup,
    TierMove,
)
from hookline_metrics.grammars import GrammarCompiling, GrammarNews
from hookline_metrics.metric import Feature, Scope
from hookline_metrics.transfer_stats import KVLoad, TransferNews
from hookline_testing.observed import ObservedEngine
from hookline_testing.payloads import make_output
from hookline_testing.simulation import simulated_core
from hookline_testing.slow_evictions import SlowEvictions

TABLE = Path(__file__).with_name("metric_cases.json")
"""By case, then by histogram: {"count", "sum", "buckets": {bound: count}}."""

HISTOGRAMS = [
    metric.name
    for metric in CATALOGUE
    if metric.kind is Kind.HISTOGRAM
    and metric.is_own
    and metric.scope is Scope.ENGINE
    and metric.feature in {None, Feature.MODEL_TIMES, Feature.WORKER_TIMES}
]


class Case:
    """An engine whose outputs go through the front end's books into a recorder."""

    def __init__(
        self,
        *,
        num_kv_blocks: int = 64,
        max_num_seqs: int = 8,
        threshold: int | None = None,
        is_caching: bool = False,
    ) -> None:
        clock = VirtualClock(start=77 * NANOSECONDS)
        core = simulated_core(
            clock=clock,
            cache=CacheConfig(
                block_size=1,
                num_kv_blocks=num_kv_blocks,
                enable_prefix_caching=is_caching,
            ),
            scheduler=SchedulerConfig(
                max_num_seqs=max_num_seqs, long_prefill_token_threshold=threshold
            ),
            max_model_len=min(num_kv_blocks, 32),
        )
        self.clock = clock
        self.core = core
        self.outputs: list[StepOutput] = []
        self.engine = ObservedEngine(core, clock, is_detailed=True)
        metrics = MetricsConfig(dialects=("hookline",))
        observers = ObserverConfig(detailed_traces=(DetailedTrace.ALL,))
        config = EngineConfig(observers=observers, sections={"metrics": metrics})
        self.recorder = Recorder(config, clock=clock)
        self.recorder.engine_started(
            EngineStarted(facts=core.facts, clock=core.clock_pair())
        )

    def turn(self) -> bool:
        """Lets the engine do what is next; False when it has nothing to do."""
        output = self.engine.receive()
        if output is None:
            return False
        self.record(output, self.engine.iterations[-1])
        return True

    def run(self) -> None:
        while self.turn():
            pass

    def take(self, output: StepOutput) -> None:
        """An output made by hand."""
        self.record(output, self.engine.take(output))

    def record(self, output: StepOutput, iteration: IterationStats) -> None:
        self.outputs.append(output)
        if output.record is not None:
            step = StepFinished(
                engine_index=0,
                record=output.record,
                iteration=iteration,
                scheduler=output.stats,
            )
            self.recorder.step_finished(step)
        else:
            state = StateChanged(
                engine_index=0,
                cause=output.cause,
                at=output.at,
                scheduler=output.stats,
                iteration=iteration,
            )
            self.recorder.state_changed(state)

    def histograms(self) -> dict[str, dict[str, object]]:
        """Every histogram that has observations, as in the table."""
        found = {}
        for family in self.recorder.snapshot():
            for sample in family.samples:
                value = sample.value
                if isinstance(value, HistogramValue) and value.count:
                    own = sample.labels[2:]
                    name = family.name + (f"{{{','.join(own)}}}" if own else "")
                    found[name] = described(value)
        return found

    def gauge(self, name: str) -> float:
        value = self._value(name)
        assert isinstance(value, float | int)
        return value

    def by_label(self, name: str) -> dict[str, float]:
        """The values of a family with one label, without those that are 0."""
        return {
            sample.labels[-1]: sample.value
            for family in self.recorder.snapshot()
            if family.name == f"hookline_{name}"
            for sample in family.samples
            if isinstance(sample.value, float | int) and sample.value
        }

    def count(self, name: str) -> int:
        """The number of a histogram's observations."""
        value = self._value(name)
        assert isinstance(value, HistogramValue)
        return value.count

    def _value(self, name: str) -> float | HistogramValue:
        [sample] = next(
            family.samples
            for family in self.recorder.snapshot()
            if family.name == f"hookline_{name}"
        )
        return sample.value


def described(value: HistogramValue) -> dict[str, object]:
    bounds = [*(f"{bound:g}" for bound in value.bounds), "+Inf"]
    return {
        "count": value.count,
        "sum": round(value.sum, 9),
        "buckets": {
            bound: count
            for bound, count in zip(bounds, value.counts, strict=True)
            if count
        },
    }


def tokens(max_tokens: int, *, n: int = 1) -> SamplingParams:
    return SamplingParams(max_tokens=max_tokens, n=n)


def common() -> Case:
    """A request waits for a place for two steps, is prefilled and decodes."""
    case = Case(max_num_seqs=1)
    case.engine.submit([1, 2, 3], tokens(2))
    case.engine.submit([4, 5, 6], tokens(3))
    case.clock.sleep(0.5)
    case.run()
    return case


def preempted_decode() -> Case:
    """The second request loses its blocks after it has begun to decode."""
    case = Case(num_kv_blocks=8)
    case.engine.submit([1] * 3, tokens(5))
    case.engine.submit([2] * 3, tokens(5))
    case.run()
    return case


def preempted_prefill() -> Case:
    """The second request loses its blocks between two chunks of its prompt."""
    case = Case(num_kv_blocks=8, threshold=2)
    case.engine.submit([1] * 2, tokens(6))
    case.engine.submit([2] * 5, tokens(1))
    case.run()
    return case


def chunked_prefill() -> Case:
    """A prompt of ten tokens in chunks of four."""
    case = Case(threshold=4)
    case.engine.submit([1] * 10, tokens(3))
    case.run()
    return case


def prefix_hit() -> Case:
    """The second of two equal prompts finds all but its last token."""
    case = Case(is_caching=True)
    case.engine.submit([1, 2, 3, 4], tokens(2))
    case.run()
    case.engine.submit([1, 2, 3, 4], tokens(2))
    case.run()
    return case


def evictions() -> Case:
    """A prompt that evicts three blocks of the one before it, and an output one."""
    case = Case(num_kv_blocks=8, is_caching=True)
    case.core._scheduler._cache.add_listener(SlowEvictions(case.clock, 0.000_25))
    case.engine.submit([1, 2, 3, 4, 5], tokens(1))
    case.run()
    case.engine.submit([6, 7, 8, 9, 10, 11], tokens(2))
    case.run()
    return case


def told(case: Case, **events: object) -> StepOutput:
    """An output made by hand."""
    return make_output(case.clock.now(), **events)


def compiled(ended: list[GrammarCompiling]) -> dict[str, object]:
    """The section of an output that tells of grammars."""
    return {GRAMMARS: GrammarNews(ended)}


def moved(
    loads: tuple[KVLoad, ...] = (), events: tuple[ConnectorEvent, ...] = ()
) -> dict[str, object]:
    """The section of an output that tells of transfers."""
    return {KV_TRANSFER: TransferNews(loads, events)}


def kv_loads() -> Case:
    """Two loads end with one output, and one fails with the next."""
    case = Case()
    good = [KVLoad(3_000_000, 32), KVLoad(40_000_000, 16)]
    case.take(told(case, sections=moved(loads=tuple(good))))
    case.take(told(case, sections=moved(loads=(KVLoad(2_000_000_000),))))
    return case


def tier_moves() -> Case:
    """A look-up, a store and a load of memory, and two loads from disk, one failed."""
    case = Case()
    events: list[ConnectorEvent] = [
        ConnectorLookup(3_000),
        TierLookup("cpu", 2_000),
        TierLookup("disk", 900_000),
        TierAllocation("cpu", 3),
        TierMove("cpu", "in", 30_000, 400_000),
        TierMove("cpu", "out", 20_000, 20_000),
        TierMove("disk", "out", 5_000_000, 700_000_000),
        TierMove("disk", "out", 0, 5_000, is_good=False),
    ]
    case.take(told(case, sections=moved(events=tuple(events))))
    return case


def compiled_grammars() -> Case:
    """Two grammars end with one output, and one at the limit with the next."""
    case = Case()
    quick = [GrammarCompiling(0.004), GrammarCompiling(0.015)]
    case.take(told(case, sections=compiled(quick)))
    case.take(told(case, sections=compiled([GrammarCompiling(1.0)])))
    return case


def several_tokens_a_step() -> Case:
    """A request gets three tokens, and four more after two seconds."""
    case = Case()
    case.engine.submit([1] * 3, tokens(20))

    def at(seconds: float) -> int:
        return round(seconds * NANOSECONDS)

    begun = Scheduled(1, at(2.5), 0, 0, 0, is_resumed=False)
    case.take(told(case, queued=[Queued(1, at(1), 3)], scheduled=[begun]))
    case.take(told(case, new_tokens=[NewTokens(1, at(3), [5, 6, 7])]))
    case.take(told(case, new_tokens=[NewTokens(1, at(5), [8] * 4)]))
    case.take(told(case, finished=[Finished(1, at(6), LengthReached(), 7)]))
    return case


def one_token() -> Case:
    """A request for a single token has no decode to divide."""
    case = Case()
    case.engine.submit([1] * 3, tokens(1))
    case.run()
    return case


def several_completions() -> Case:
    """Two completions of one prompt, one after the other."""
    case = Case(max_num_seqs=1)
    case.engine.submit([1] * 3, tokens(2, n=2))
    case.run()
    return case


def aborted_while_queued() -> Case:
    """The client leaves while another request holds the only place."""
    case = Case(max_num_seqs=1)
    case.engine.submit([1] * 3, tokens(3))
    waiting = case.engine.submit([2] * 4, tokens(3))
    case.turn()
    case.engine.abort(waiting)
    case.run()
    return case


def aborted_while_prefilling() -> Case:
    """The client leaves after the first of three chunks."""
    case = Case(threshold=4)
    request = case.engine.submit([1] * 10, tokens(3))
    case.turn()
    case.engine.abort(request)
    case.run()
    return case


def aborted_while_decoding() -> Case:
    """The client leaves after two tokens."""
    case = Case()
    request = case.engine.submit([1] * 3, tokens(9))
    case.turn()
    case.turn()
    case.clock.sleep(0.25)
    case.engine.abort(request)
    case.run()
    return case


CASES: dict[str, Callable[[], Case]] = {
    case.__name__: case
    for case in (
        common,
        preempted_decode,
        preempted_prefill,
        chunked_prefill,
        prefix_hit,
        evictions,
        kv_loads,
        tier_moves,
        compiled_grammars,
        several_tokens_a_step,
        one_token,
        several_completions,
        aborted_while_queued,
        aborted_while_prefilling,
        aborted_while_decoding,
    )
}

EXPECTED: dict[str, dict[str, dict[str, object]]] = json.loads(TABLE.read_text())


def test_table_has_every_case_and_histogram() -> None:
    """Each case stands in the table, and each histogram is observed in some case."""
    observed = {name.split("{")[0] for rows in EXPECTED.values() for name in rows}

    assert set(EXPECTED) == set(CASES)
    assert observed == set(HISTOGRAMS)


@pytest.mark.parametrize("name", CASES)
def test_case_gives_exactly_these_histograms(name: str) -> None:
    """Histograms have exactly the observations of the table."""
    found = CASES[name]().histograms()

    assert found == EXPECTED[name]


def test_running_requests_have_an_age_at_every_scrape() -> None:
    """Also those that come after an idle state and end before a heartbeat."""
    case = Case()
    told = []

    for _ in range(3):
        case.engine.submit([1] * 3, tokens(3))
        while case.turn():
            case.clock.sleep(0.25)
            running = case.gauge("requests_running")
            told.append((running, case.gauge("oldest_running_age_seconds")))

    assert told == [(1, 1.25), (1, 2.5), (0, 0), (0, 0)] * 3


def test_ages_are_of_the_oldest_request_of_the_moment() -> None:
    """They change with the step that lets a request run or end."""
    case = Case(max_num_seqs=1)
    case.engine.submit([1] * 3, tokens(2))
    case.engine.submit([2] * 3, tokens(2))
    told = []

    while case.turn():
        waiting = case.gauge("oldest_waiting_age_seconds")
        told.append((waiting, case.gauge("oldest_running_age_seconds")))

    assert told == [(1, 1), (2, 0), (0, 3), (0, 0), (0, 0)]


def test_queue_and_prefill_are_observed_when_they_are_known() -> None:
    """Neither waits for the request's end, and each request is observed once."""
    case = Case(max_num_seqs=1, threshold=4)
    case.engine.submit([1] * 10, tokens(20))
    case.engine.submit([2] * 3, tokens(1))
    phases = ("request_queue_seconds", "request_prefill_seconds")
    told = []

    for _ in range(4):
        case.turn()
        told.append(tuple(map(case.count, phases)))
    ended = case.count("request_e2e_seconds")
    case.run()

    assert told == [(1, 0), (1, 0), (1, 1), (1, 1)]
    assert ended == 0
    assert tuple(map(case.count, phases)) == (2, 2)


def submitted(case: Case, prompt: list[int], n: int) -> int:
    """Runs a request and returns the cached tokens that its client was told."""
    case.engine.submit(prompt, tokens(3, n=n))
    case.run()
    outputs = [each for each in case.engine.news if isinstance(each, RequestOutput)]
    return outputs[-1].cached_tokens


def test_prefix_cache_counts_every_choice_and_the_usage_each_prompt() -> None:
    """Choices find what the first one computed; clients are told what it found."""
    case = Case(is_caching=True)

    told = [submitted(case, list(range(6)), n=4) for _ in range(2)]

    assert told == [0, 5]
    assert case.gauge("prefix_cache_queried_tokens") == 2 * 4 * 6
    assert case.gauge("prefix_cache_hit_tokens") == 3 * 5 + 4 * 5
    assert case.gauge("prefix_cache_hit_ratio") == 35 / 48
    assert case.by_label("prompt_tokens") == {"computed": 48 - 35, "local_cache": 35}
    assert case.by_label("request_group_prompt_tokens") == {
        "computed": 6 + 1,
        "local_cache": 5,
    }


@pytest.mark.parametrize("max_num_seqs", [1, 2, 8])
@pytest.mark.parametrize("threshold", [None, 2])
@pytest.mark.parametrize("num_kv_blocks", [10, 64])
def test_sources_of_all_choices_add_up(
    max_num_seqs: int, threshold: int | None, num_kv_blocks: int
) -> None:
    """In chunks, in turns and after preemptions, what is not found is computed."""
    case = Case(
        is_caching=True,
        max_num_seqs=max_num_seqs,
        threshold=threshold,
        num_kv_blocks=num_kv_blocks,
    )

    told = [submitted(case, [1, 2, 3, 4, each], n=3) for each in (5, 5, 6)]

    queried = case.gauge("prefix_cache_queried_tokens")
    hits = case.gauge("prefix_cache_hit_tokens")
    groups = case.by_label("request_group_prompt_tokens")
    is_tight = max_num_seqs == 8 and num_kv_blocks == 10
    assert case.gauge("preemptions") > 0 or not is_tight
    assert queried == 3 * 3 * 5
    assert case.by_label("prompt_tokens") == {
        "computed": queried - hits,
        "local_cache": hits,
    }
    assert groups == {"computed": 3 * 5 - sum(told), "local_cache": sum(told)}


def test_aborted_choices_were_looked_up_and_got_no_prompt() -> None:
    """What ends before its first token is in the cache's numbers alone."""
    case = Case(is_caching=True, threshold=2)
    case.engine.submit(list(range(6)), tokens(3, n=2))
    request = case.engine.submit(list(range(6, 12)), tokens(3, n=2))
    case.turn()

    case.engine.abort(request)
    case.run()

    assert case.gauge("prefix_cache_queried_tokens") == 4 * 6
    assert sum(case.by_label("prompt_tokens").values()) == 2 * 6
    assert case.by_label("request_group_prompt_tokens") == {"computed": 6}


@pytest.mark.parametrize("threshold", [None, 2])
@pytest.mark.parametrize("num_kv_blocks", [10, 14, 64])
def test_preempted_tokens_are_those_of_the_events(
    threshold: int | None, num_kv_blocks: int
) -> None:
    """Each preemption counts the prompt, and the output as far as it had come."""
    case = Case(num_kv_blocks=num_kv_blocks, threshold=threshold)
    prompts = {1: 2, 2: 5, 3: 3}
    for request_id, length in prompts.items():
        case.engine.submit([request_id] * length, tokens(5))
    outputs, waiting = dict.fromkeys(prompts, 0), set()
    expected = {"prompt": 0, "output": 0}

    while case.turn():
        # What a step preempts, and what it schedules, precedes its tokens.
        for event in case.outputs[-1].events.preempted:
            expected["prompt"] += prompts[event.request_id]
            expected["output"] += outputs[event.request_id]
            waiting.add(event.request_id)
        waiting -= {event.request_id for event in case.outputs[-1].events.scheduled}
        for new in case.outputs[-1].events.new_tokens:
            outputs[new.request_id] += len(new.token_ids)
        nonzero = {kind: number for kind, number in expected.items() if number}
        assert case.by_label("preempted_tokens") == nonzero
        assert case.gauge("requests_preempted") == len(waiting)

    assert (case.gauge("preemptions") > 0) == (num_kv_blocks < 20)
    assert case.gauge("requests_preempted") == 0


def test_aborted_request_is_no_longer_preempted() -> None:
    """A request that its client leaves while it waits for its second turn."""
    case = Case(num_kv_blocks=8)
    case.engine.submit([1] * 3, tokens(5))
    late = case.engine.submit([2] * 3, tokens(5))
    while not case.gauge("requests_preempted"):
        case.turn()

    case.engine.abort(late)
    case.turn()

    assert case.gauge("requests_preempted") == 0
    assert case.by_label("preempted_tokens")["prompt"] == 3


def test_evicted_tokens_are_those_of_the_steps() -> None:
    """The total and the steps' counts agree; their time is part of scheduling."""
    case = evictions()
    records = [each.record for each in case.outputs if each.record is not None]

    evicted = [record.evictions.blocks for record in records]
    assert evicted == [0, 3, 1]
    assert case.gauge("prefix_cache_evicted_tokens") == sum(evicted)
    assert [record.evictions.nanoseconds for record in records] == [
        record.schedule_ns for record in records
    ]
