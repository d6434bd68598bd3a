"""Adapters are loaded, replaced, unloaded and pinned in any order, under load."""

from collections.abc import Callable, Iterator
from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st

from hookline.config import CacheConfig, SchedulerConfig
from hookline.engine.commands import SleepMode
from hookline.events import PreemptionCause
from hookline.finish_cause import Aborted, Failed, LengthReached, Rejected
from hookline.stats.scheduler_stats import Residue
from hookline.step import SleepLevel
from hookline_lora.config import LoraConfig
from hookline_lora.messages import (
    AbandonAdapter,
    CommitAdapter,
    ListAdapters,
    PinAdapter,
    PrepareAdapter,
    UnloadAdapter,
    UnloadMode,
)
from hookline_testing.adapter_engine import AdapterEngine

NAMES = "abcde"


class Traffic:
    """An engine, and what clients do to it.

    Attributes:
        engine: The engine.
        in_place: Whether an adapter is written where that lay which it replaces.
        wanted: Digests that may compute each request.
        used: Digests that have computed it.
    """

    def __init__(
        self,
        *,
        slots: int,
        spare: int,
        load_seconds: float,
        in_place: bool,
        is_async: bool,
    ) -> None:
        """Starts an engine.

        Args:
            slots: Number of its slots.
            spare: Number of further places in main memory.
            load_seconds: Time in which an adapter is read.
            in_place: Whether an adapter is written where that lay which it replaces.
            is_async: Whether steps are planned while others are in flight.
        """
        config = LoraConfig(max_loras=slots, max_cpu_loras=slots + spare, max_wait=3.0)
        self.engine = AdapterEngine(
            config,
            load_seconds=load_seconds,
            cache=CacheConfig(block_size=4, num_kv_blocks=24),
            scheduler=SchedulerConfig(max_num_seqs=6, async_scheduling=is_async),
        )
        self.in_place = in_place
        self.wanted: dict[int, set[str]] = {}
        self.used: dict[int, set[str]] = {}
        self._numbers = count(1)
        self._current: dict[str, str] = {}
        self._tickets: dict[str, tuple[str, str]] = {}

    def send(self, name: str) -> None:
        """Sends a request as a front end would that knows the adapters."""
        number = next(self._numbers)
        digest = self._current.get(name)
        if digest is None:
            self.engine.send(number, None, max_tokens=3)
            return
        self.wanted[number] = {digest}
        self.engine.send(number, name, 9, path=self._path(digest), digest=digest)

    def prepare(self, name: str) -> None:
        """Begins to load other content under a name."""
        ticket = digest = f"{name}{next(self._numbers)}"
        self._tickets[ticket] = name, digest
        path = self._path(digest)
        self.engine.files.contents[path] = digest
        answer = self.engine.tell(PrepareAdapter(ticket=ticket, name=name, path=path))
        assert answer.error is None

    def commit(self, name: str) -> None:
        """Commits what is ready; what was loaded under that name has ended by then."""
        for ticket, (of, digest) in list(self._tickets.items()):
            if of != name:
                continue
            del self._tickets[ticket]
            if self.engine.tell(CommitAdapter(ticket)).error is not None:
                self.engine.tell(AbandonAdapter(ticket))
                continue
            self._current[name] = digest
            for number, allowed in self.wanted.items():
                if number not in self.engine.finished:
                    allowed.add(digest)

    def unload(self, name: str) -> None:
        """Lets its requests end."""
        self._unload(name, UnloadMode.WAIT)

    def abort(self, name: str) -> None:
        """Aborts its requests."""
        self._unload(name, UnloadMode.ABORT)

    def _unload(self, name: str, mode: UnloadMode) -> None:
        self._current.pop(name, None)
        self.engine.tell(UnloadAdapter(name, mode))

    def pin(self, name: str) -> None:
        """Pins an adapter, unless too many are."""
        self.engine.tell(PinAdapter(name))

    def unpin(self, name: str) -> None:
        """Pins an adapter no longer."""
        self.engine.tell(PinAdapter(name, is_pinned=False))

    def preempt(self, name: str) -> None:
        """Has all requests computed again."""
        del name
        core = self.engine.core
        core._scheduler.preempt_all(self.engine.clock.now(), PreemptionCause.RESET)

    def sleep(self, name: str) -> None:
        """Sleeps for a moment, unless a step is in flight."""
        del name
        core = self.engine.core
        if not core.has_steps_in_flight:
            core.hold(SleepMode.KEEP)
            core.sleep(SleepLevel.WEIGHTS)
            core.wake_up()

    def drop(self, name: str) -> None:
        """A client goes away."""
        del name
        live = self.engine.sent_at.keys() - self.engine.finished.keys()
        if live:
            self.engine.core.finish([min(live)], Aborted("client_disconnect"))

    def steps(self, name: str) -> None:
        """Runs some steps, more of them for later names."""
        for _ in range(1 + NAMES.index(name)):
            if self.engine.core.has_work:
                self.engine.step()
                for number, digest in self.engine.worker.rows.items():
                    self.used.setdefault(number, set()).add(digest)

    def _path(self, digest: str) -> str:
        return f"/adapters/{digest[0] if self.in_place else digest}"


ACTIONS: tuple[Callable[[Traffic, str], None], ...] = (
    *([Traffic.send] * 6),
    *([Traffic.steps] * 5),
    *([Traffic.prepare] * 3),
    *([Traffic.commit] * 3),
    *(Traffic.unload, Traffic.abort, Traffic.pin, Traffic.unpin),
    *(Traffic.preempt, Traffic.sleep, Traffic.drop),
)
actions = st.lists(
    st.tuples(st.sampled_from(ACTIONS), st.sampled_from(NAMES)), max_size=120
)


def prepared() -> Iterator[tuple[Callable[[Traffic, str], None], str]]:
    """Loads each adapter."""
    for name in NAMES:
        yield Traffic.prepare, name
        yield Traffic.steps, "e"
        yield Traffic.steps, "e"
        yield Traffic.commit, name


traffics = st.builds(
    Traffic,
    slots=st.integers(1, 3),
    spare=st.integers(0, 3),
    load_seconds=st.sampled_from([0.0, 0.4, 3.0]),
    in_place=st.booleans(),
    is_async=st.booleans(),
)


@settings(max_examples=40, deadline=None)
@given(traffics, actions)
def test_requests_end_with_right_weights_and_nothing_is_left(
    traffic: Traffic, given: list[tuple[Callable[[Traffic, str], None], str]]
) -> None:
    """Each is computed with one adapter, of the name that it asked for."""
    for act, name in (*prepared(), *given):
        act(traffic, name)
    engine = traffic.engine
    for name in NAMES:
        traffic.commit(name)
    engine.run()

    for number, digests in traffic.used.items():
        assert len(digests) == 1
        assert digests <= traffic.wanted[number]
    causes = {type(each.cause) for each in engine.finished.values()}
    # Old weights may be gone before the new ones that took their place are committed.
    assert causes <= {LengthReached, Aborted, Rejected, *([Failed] * traffic.in_place)}
    assert engine.finished.keys() == engine.sent_at.keys()
    assert engine.core.stats.totals.residue == Residue()
    assert not engine.core.stats.held
    assert not engine.stats.adapters
    listed = engine.tell(ListAdapters())
    assert listed.loading == {}
    digests = {state.ref.digest for state in listed.adapters.values()}
    assert engine.worker.memory == engine.side._residency.resident.keys() <= digests
    assert engine.side._registry.weights.keys() == digests
