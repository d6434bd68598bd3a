"""No request waits for its adapter for longer than a bound, whatever else arrives."""

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from hookline.finish_cause import LengthReached
from hookline.stats.scheduler_stats import Residue
from hookline_lora.config import LoraConfig
from hookline_testing.adapter_engine import AdapterEngine

MOST_TOKENS = 6
STEP_SECONDS = 1.0


@dataclass(frozen=True)
class Arrival:
    """A request that arrives some steps after the one before it."""

    gap: int
    adapter: int
    max_tokens: int


@dataclass(frozen=True)
class Setting:
    """An engine, and its adapters."""

    adapters: int
    slots: int
    spare: int
    load_seconds: float
    max_wait: float
    num_bytes: tuple[int, ...] = ()

    @property
    def bound_seconds(self) -> float:
        """The longest wait at the gate.

        Before a claim that has waited for `max_wait`, each other adapter is served at
        most once, and each slot serves one in a round: the requests of the adapter
        that has it end, adapters are read, and steps notice it. Where bytes are
        short, an adapter may need the memory of all others.
        """
        in_turn = 1 if self.num_bytes else self.slots
        rounds = (self.adapters - 1) // in_turn + 1
        running = (MOST_TOKENS + 1) * STEP_SECONDS
        reading = (self.slots + self.spare) * self.load_seconds
        return self.max_wait + rounds * (running + reading + 2 * STEP_SECONDS)


def engines(sizes: st.SearchStrategy[tuple[int, ...]]) -> st.SearchStrategy[Setting]:
    return st.builds(
        Setting,
        adapters=st.integers(1, 7),
        slots=st.integers(1, 3),
        spare=st.integers(0, 2),
        load_seconds=st.sampled_from([0.0, 0.5, 2.0]),
        max_wait=st.sampled_from([0.0, 1.0, 5.0]),
        num_bytes=sizes,
    )


arrivals = st.lists(
    st.builds(
        Arrival,
        gap=st.integers(0, 3),
        adapter=st.integers(0, 6),
        max_tokens=st.integers(1, MOST_TOKENS),
    ),
    max_size=50,
)


def serve(setting: Setting, given: list[Arrival], hot_steps: int = 0) -> AdapterEngine:
    """Serves requests; some adapters get one in each of the first steps."""
    most = setting.slots + setting.spare
    config = LoraConfig(
        max_loras=setting.slots,
        max_cpu_loras=None if setting.num_bytes else most,
        memory=max(setting.num_bytes) + setting.spare if setting.num_bytes else None,
        max_wait=setting.max_wait,
    )
    engine = AdapterEngine(config, load_seconds=setting.load_seconds)
    sizes = {f"a{index}": size for index, size in enumerate(setting.num_bytes)}
    engine.files.num_bytes |= sizes
    number = 0

    def send(adapter: int, max_tokens: int) -> None:
        nonlocal number
        number += 1
        engine.send(number, f"a{adapter % setting.adapters}", max_tokens)

    left = iter(given)
    due = next(left, None)
    gap = 0
    for step in range(max(hot_steps, sum(each.gap for each in given) + 1)):
        if step < hot_steps:
            send(step % setting.slots, MOST_TOKENS)
        while due is not None and due.gap <= gap:
            send(due.adapter, due.max_tokens)
            due, gap = next(left, None), 0
        gap += 1
        if engine.core.has_work:
            engine.step()
    engine.run()
    return engine


def assert_fair(engine: AdapterEngine, setting: Setting) -> None:
    """All requests have ended, and none has waited for longer than the bound."""
    assert engine.sent_at.keys() == engine.finished.keys()
    assert {each.cause for each in engine.finished.values()} <= {LengthReached()}
    assert engine.core.stats.totals.residue == Residue()
    longest = max(
        ((each.ended_at - each.began_at) / 1e9 for each in engine.waits), default=0.0
    )
    assert longest <= setting.bound_seconds


@settings(max_examples=50, deadline=None)
@given(engines(st.just(())), arrivals)
def test_every_wait_is_bounded(setting: Setting, given: list[Arrival]) -> None:
    """Adapters come and go in any order; slots and memory hold some of them."""
    assert_fair(serve(setting, given), setting)


@settings(max_examples=25, deadline=None)
@given(engines(st.just(())), arrivals)
def test_every_wait_is_bounded_beside_adapters_that_are_never_idle(
    setting: Setting, given: list[Arrival]
) -> None:
    """Without draining, adapters with requests at all times would keep their slots."""
    assert_fair(serve(setting, given, hot_steps=80), setting)


@settings(max_examples=25, deadline=None)
@given(engines(st.tuples(*[st.integers(1, 4)] * 7)), arrivals)
def test_every_wait_is_bounded_where_bytes_are_short(
    setting: Setting, given: list[Arrival]
) -> None:
    """A large adapter gets the memory of several small ones."""
    assert_fair(serve(setting, given, hot_steps=40), setting)


def test_without_draining_the_bound_would_not_hold() -> None:
    """The traffic of these tests is one that starves adapters if it can."""
    setting = Setting(adapters=4, slots=2, spare=0, load_seconds=0.0, max_wait=1000.0)
    engine = serve(setting, [Arrival(1, 2, 1), Arrival(0, 3, 1)], hot_steps=200)

    assert max(each.ended_at - each.began_at for each in engine.waits) > 150e9
