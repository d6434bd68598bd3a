"""The saturation signal against engines whose capacity was measured beforehand."""

import random
from collections import deque
from collections.abc import Callable
from functools import cache
from statistics import fmean

import pytest

from hookline.clock import NANOSECONDS, VirtualClock
from hookline.config import CacheConfig, SchedulerConfig
from hookline.events import StepOutput
from hookline.payloads import StateChanged, StepFinished
from hookline.sampling_params import SamplingParams
from hookline.stats.iteration_stats import IterationStats
from hookline.stats.scheduler_stats import SchedulerStats
from hookline_metrics.saturation import PARTS, Saturation
from hookline_simulated.config import SimulationConfig
from hookline_testing.essential import essential
from hookline_testing.observed import ObservedEngine
from hookline_testing.simulation import simulated_core


class Site:
    """A simulated engine, its clients and its signal, all on one virtual clock."""

    def __init__(
        self,
        *,
        prompt: int,
        output: int,
        max_num_seqs: int,
        budget: int = 512,
        blocks: int = 4000,
    ) -> None:
        self.clock = VirtualClock(start=1000 * NANOSECONDS)
        self.core = simulated_core(
            clock=self.clock,
            cache=CacheConfig(num_kv_blocks=blocks),
            scheduler=SchedulerConfig(
                max_num_seqs=max_num_seqs, max_num_batched_tokens=budget
            ),
            simulation=SimulationConfig(
                step_seconds=0.05,
                prefill_token_seconds=0.0002,
                decode_request_seconds=0.001,
            ),
            max_model_len=1024,
        )
        self.engine = ObservedEngine(self.core, self.clock)
        self.saturation = Saturation(self.core.facts)
        self.last = SchedulerStats()
        self.unseen: list[float] = []
        """How long each arrival waited for the end of a step, unknown to the engine."""
        self._lengths = prompt, output
        self._source = random.Random(5)  # noqa: S311 - no secret

    def submit(self, count: int = 1) -> None:
        """Requests of about the mean length, one and a half times at most."""
        for _ in range(count):
            prompt, output = (
                self._source.randint((mean + 1) // 2, mean * 3 // 2)
                for mean in self._lengths
            )
            tokens = self._source.choices(range(900), k=prompt)
            params = SamplingParams(max_tokens=output, ignore_eos=True)
            self.engine.submit(tokens, params)

    def turn(self) -> None:
        """A step, or half a second of idleness."""
        output = self.engine.receive()
        if output is None:
            self.clock.sleep(0.5)
            output = self.core.report("heartbeat")
            self.engine.take(output)
        self._tell(output)

    def _tell(self, output: StepOutput) -> None:
        iteration, self.last = self.engine.iterations.pop(), output.stats
        self.engine.news.clear()
        if (record := output.record) is not None:
            self.saturation.step(
                StepFinished(
                    engine_index=0,
                    record=record,
                    iteration=iteration,
                    scheduler=output.stats,
                )
            )
        else:
            self.saturation.state(
                StateChanged(
                    engine_index=0,
                    cause=output.cause,
                    at=output.at,
                    scheduler=output.stats,
                    iteration=iteration,
                )
            )

    def load(self, rate: float, seconds: float) -> list[float]:
        """Poisson arrivals for so long; the signal once a second."""
        end = self.clock.now() + round(seconds * NANOSECONDS)
        due, sampled, values = self.clock.now(), self.clock.now(), []
        while self.clock.now() < end:
            while due <= self.clock.now():
                self.unseen.append((self.clock.now() - due) / NANOSECONDS)
                due += round(self._source.expovariate(rate) * NANOSECONDS)
                self.submit()
            self.turn()
            if self.clock.now() >= sampled:
                sampled += NANOSECONDS
                values.append(self.saturation.value())
        return values

    def run(self, seconds: float) -> None:
        """Lets time go by without arrivals."""
        end = self.clock.now() + round(seconds * NANOSECONDS)
        while self.clock.now() < end:
            self.turn()

    def drain(self) -> None:
        """Works until nothing is left."""
        while self.core.has_work:
            self.turn()

    def served_per_second(self, requests: int = 1500) -> float:
        """The true capacity: how fast the middle part of a long queue is served."""
        self.submit(requests)
        times: deque[int] = deque()
        while len(self.engine.finished) < requests:
            done = len(self.engine.finished)
            self.turn()
            times.extend([self.clock.now()] * (len(self.engine.finished) - done))
        first, last = requests // 5, requests * 4 // 5
        return (last - first) / ((times[last] - times[first]) / NANOSECONDS)


SITES: dict[str, Callable[[], Site]] = {
    "decode": lambda: Site(prompt=30, output=20, max_num_seqs=16),
    "wide": lambda: Site(prompt=30, output=20, max_num_seqs=200),
    "prefill": lambda: Site(prompt=600, output=2, max_num_seqs=64),
    "cache": lambda: Site(prompt=50, output=40, max_num_seqs=64, blocks=70),
    "one token": lambda: Site(prompt=30, output=1, max_num_seqs=16),
}
"""What bounds the engine: slots, arithmetic, prompts, the KV cache, single steps."""

BANDS = {0.3: (0.2, 0.4), 0.6: (0.48, 0.72), 0.9: (0.78, 1.05), 1.1: (1.0, 2.0)}


@cache
def capacity(name: str) -> float:
    return SITES[name]().served_per_second()


@pytest.mark.parametrize("share", BANDS)
@pytest.mark.parametrize("name", essential(SITES, "decode"))
def test_it_is_the_fraction_of_the_capacity_in_use(name: str, share: float) -> None:
    """On average the signal is the load divided by the measured capacity."""
    site = SITES[name]()

    values = site.load(capacity(name) * share, 80)[-40:]

    least, most = BANDS[share]
    assert least < fmean(values) < most


@pytest.mark.parametrize("name", essential(SITES, "decode"))
def test_capacity_is_known_below_it(name: str) -> None:
    """At six tenths of the load the estimate is right within three of its errors."""
    site = SITES[name]()
    site.load(capacity(name) * 0.6, 80)

    found = site.saturation.capacity().estimates["requests_per_second"]

    assert found.error is not None
    assert found.error < 0.5
    off = abs(found.value - capacity(name)) / capacity(name)
    assert off < max(3 * found.error, 0.1)


def test_latencies_are_predicted_at_the_present_load() -> None:
    """What the requests of half a minute saw is what had been predicted on average."""
    site = SITES["decode"]()
    nothing = site.saturation.capacity()
    predicted = []
    for _ in range(60):
        site.load(capacity("decode") * 0.6, 1)
        predicted.append(site.saturation.capacity())
    recent = list(site.engine.finished.values())[-100:]
    ttft = fmean(each.ttft_seconds or 0.0 for each in recent)
    ttft += fmean(site.unseen[-100:])
    tpot = fmean(each.tpot_seconds or 0.0 for each in recent)

    def mean(name: str) -> float:
        return fmean(each.value(name) or 0.0 for each in predicted[-30:])

    assert (nothing.estimates, nothing.errors) == ({}, {})
    assert mean("time_to_first_token") == pytest.approx(ttft, rel=0.25)
    assert mean("inter_token") == pytest.approx(tpot, rel=0.25)
    errors = predicted[-1].errors
    assert 0.0 < errors["time_to_first_token"] < 1.0
    assert 0.0 < errors["inter_token"] < 0.5


@pytest.mark.parametrize("name", essential(SITES, "decode"))
def test_it_stays_high_while_the_queue_grows(name: str) -> None:
    """At one and a half times the capacity it is above 1 and goes on rising."""
    site = SITES[name]()

    values = site.load(capacity(name) * 1.5, 60)

    assert min(values[25:]) > 1.2
    assert fmean(values[-10:]) > fmean(values[20:30])


def test_a_small_cache_has_its_own_part() -> None:
    """What a larger KV cache would spare stands in the part `kv`, and only there."""
    small, large = SITES["cache"](), SITES["decode"]()

    small.load(capacity("cache") * 0.7, 60)
    large.load(capacity("decode") * 0.7, 60)

    parts = small.saturation.parts()
    assert parts["kv"] > parts["load"] / 2
    assert large.saturation.parts()["kv"] == 0.0


def test_an_idle_engine_has_none() -> None:
    """Before the first request it is 0, and stays so while nothing comes."""
    site = SITES["decode"]()

    before = site.saturation.value()
    site.run(60)

    assert before == site.saturation.value() == 0.0
    assert set(site.saturation.parts()) == set(PARTS)


def test_it_falls_when_the_load_stops() -> None:
    """Once the work is done it is near 0 within ten seconds, and soon exactly 0."""
    site = SITES["decode"]()
    site.load(capacity("decode") * 0.9, 60)
    busy = site.saturation.value()

    site.drain()
    site.run(10)
    soon = site.saturation.value()
    site.run(20)

    assert busy > 0.7
    assert 0.0 < soon < 0.05
    assert site.saturation.value() == 0.0


def test_it_falls_without_updates() -> None:
    """While the engine is idle, time alone lets the value fall."""
    site = SITES["decode"]()
    site.load(capacity("decode") * 0.9, 60)
    site.drain()
    now = site.clock.now()

    values = [site.saturation.value(now + each * NANOSECONDS) for each in range(30)]

    assert values == sorted(values, reverse=True)
    assert values[0] > 0.5
    assert values[-1] == 0.0


def test_a_queue_that_drains_lets_it_fall_below_one() -> None:
    """After an overload it falls steadily while what was left is worked off."""
    site = SITES["decode"]()
    site.load(capacity("decode") * 1.5, 60)
    peak = site.saturation.value()

    site.run(20)
    later = site.saturation.value()
    site.run(20)

    assert peak > 1.5
    assert later < peak / 2
    assert site.saturation.value() < 0.1


def test_a_burst_shows_at_once() -> None:
    """More work than the horizon holds, all at one moment, is above 1 in a second."""
    site = SITES["decode"]()
    site.run(60)

    site.submit(round(capacity("decode") * 20))
    site.run(1)

    assert site.saturation.value() > 1.0


def test_a_small_burst_is_not_an_overload() -> None:
    """A batch that is served within a second or two does not look like saturation."""
    site = SITES["decode"]()
    site.run(60)
    values = []

    site.submit(16)
    for _ in range(20):
        site.turn()
        values.append(site.saturation.value())

    assert 0.0 < max(values) < 0.5


def test_it_means_something_after_a_few_steps() -> None:
    """A queue far too long is seen before the tenth step is over."""
    site = SITES["decode"]()
    site.submit(1000)

    for _ in range(9):
        site.turn()

    assert site.saturation.value() > 1.0


@pytest.mark.parametrize("cause", ["failed", "drain"])
def test_a_dead_engine_has_none(cause: str) -> None:
    """When the engine has died or was closed it is 0 at once, whatever it was."""
    site = SITES["decode"]()
    site.load(capacity("decode") * 1.5, 30)

    site.saturation.state(
        StateChanged(
            engine_index=0,
            cause=cause,
            at=site.clock.now(),
            scheduler=SchedulerStats(),
            iteration=IterationStats(),
        )
    )

    assert site.saturation.value() == 0.0


def test_the_parts_make_the_value() -> None:
    """The value is max(load + kv, growth) + backlog."""
    site = SITES["cache"]()

    site.load(capacity("cache") * 1.2, 40)

    parts = site.saturation.parts()
    whole = max(parts["load"] + parts["kv"], parts["growth"]) + parts["backlog"]
    assert site.saturation.value() == pytest.approx(whole)
    assert min(parts.values()) >= 0.0
