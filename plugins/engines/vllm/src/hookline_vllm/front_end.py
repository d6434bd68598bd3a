"""vLLM's front end as loggers see it: its requests, engines and HTTP exchanges."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial

from hookline.clock import NANOSECONDS, SystemClock
from hookline.config.engine import EngineConfig
from hookline.frontend.observing import Observing
from hookline.frontend.request_account import RequestAccount
from hookline.payloads import HttpAnswered, HttpExchange
from hookline_vllm.engine_account import EngineAccount
from hookline_vllm.engine_events import Rounds
from hookline_vllm.notices import (
    AbortedIds,
    Added,
    Answered,
    Notice,
    Outputs,
    Recorded,
    Refused,
    Slept,
)
from hookline_vllm.request_numbers import number_of
from hookline_vllm.requests import generate_request, is_streamed


class NoticeClock(SystemClock):
    """Reads the time of the notice at hand, which may be some time ago."""

    def __init__(self) -> None:
        self.at = 0

    def now(self) -> int:
        return self.at or SystemClock.now()

    def wall(self) -> int:
        behind = SystemClock.now() - self.at if self.at else 0
        return SystemClock.wall() - behind


class FrontEnd:
    """Takes notices, in their order, and tells loggers of them; for one thread."""

    def __init__(
        self,
        engines: Mapping[int, EngineAccount],
        config: EngineConfig,
        observers: Observing,
        clock: NoticeClock,
    ) -> None:
        self._engines = engines
        self._first = next(iter(engines.values()))
        self._slo = config.observers.slo
        self._trace_ratio = config.observers.trace_ratio
        self._observers = observers
        self._clock = clock
        self._groups: dict[str, list[Added]] = {}
        self._unplaced: dict[str, Added] = {}
        self._placed: dict[str, EngineAccount] = {}
        self._untold: list[Outputs | AbortedIds] = []
        self._exchanges: list[HttpExchange] = []

    def handle(self, notice: Notice) -> None:
        """Takes one notice in."""
        self._clock.at = notice.at
        match notice:
            case Added():
                self._added(notice)
            case Outputs():
                self._untold.append(notice)
            case AbortedIds() if self._untold:
                self._untold.append(notice)
            case AbortedIds():
                self._aborted(notice)
            case Recorded():
                self._recorded(notice)
            case Refused():
                self._first.refused(notice.reason, notice.at)
            case Slept():
                for engine in self._engines.values():
                    engine.slept(notice.level, notice.at)
            case Answered():
                self._exchanges.append(notice.exchange)

    def keep(self, names: Collection[str]) -> None:
        """Ends all requests but these, because what ended them is not known."""
        at = NoticeClock().now()
        for parent in list(self._groups):  # the rest of it may be lost
            self._place(self._groups.pop(parent))
        lost = [each for each in (*self._placed, *self._unplaced) if each not in names]
        self._aborted(AbortedIds(at, lost), "unknown")

    def flush(self) -> None:
        """Tells loggers what has been taken in."""
        for engine in self._engines.values():
            engine.flush()

    def tick(self, in_flight: Mapping[tuple[str, str], int]) -> None:
        """Tells the states of the engines, and what was answered since."""
        self._clock.at = 0
        at = self._clock.now()
        for engine in self._engines.values():
            engine.heartbeat(at)
        answered = HttpAnswered(
            exchanges=tuple(self._exchanges), in_flight=dict(in_flight)
        )
        self._exchanges = []
        self._observers.http_answered(answered)

    def close(self) -> None:
        """Ends all requests, because the server ends."""
        self._clock.at = 0
        for engine in self._engines.values():
            engine.close(self._clock.now())

    def _added(self, notice: Added) -> None:
        request_id = notice.request.request_id
        if request_id in self._placed or request_id in self._unplaced:
            return  # more input of a request that has begun
        if notice.parent is None:
            self._place([notice])
            return
        group = self._groups.setdefault(notice.parent, [])
        group.append(notice)
        if len(group) == notice.n:
            self._place(self._groups.pop(notice.parent))

    def _place(
        self, group: Sequence[Added], engine: EngineAccount | None = None
    ) -> None:
        """Has an engine account for the completions of a request."""
        if engine is None and len(self._engines) > 1:
            self._unplaced.update((each.request.request_id, each) for each in group)
            return
        engine = engine or self._first
        first, before = group[0], self._clock.at
        request = generate_request(first, self._slo, self._trace_ratio)
        # vLLM has the arrival on the wall clock.
        age = self._clock.wall() - round(first.request.arrival_time * NANOSECONDS)
        self._clock.at = first.at
        ids = [number_of(each.request.request_id) for each in group]
        accounts = engine.accounting.admit(
            request,
            ids,
            arrived_at=before - max(0, age),
            is_streamed=is_streamed(first.request),
        )
        self._clock.at = before
        for notice, account in zip(group, accounts, strict=True):
            name = notice.request.request_id
            self._placed[name], engine.requests[name] = engine, account

    def _find(self, engine: EngineAccount, name: str) -> RequestAccount | None:
        """Returns a request of an engine; with its first output it is known whose."""
        if name not in self._placed:
            if (unplaced := self._unplaced.pop(name, None)) is not None:
                self._place([unplaced], engine)
            elif self._groups:
                self._begin_group_of(name, engine)
        return engine.requests.get(name)

    def _begin_group_of(self, name: str, engine: EngineAccount) -> None:
        """Goes on without completions of a request that have not been added yet."""
        for parent, group in list(self._groups.items()):
            if name == parent or any(each.request.request_id == name for each in group):
                self._place(self._groups.pop(parent), engine)

    def _recorded(self, notice: Recorded) -> None:
        engine = self._engines.get(notice.engine, self._first)
        untold, self._untold = self._untold, []
        rounds, find = Rounds(engine.tells_tokens), partial(self._find, engine)
        for each in untold:
            if isinstance(each, Outputs):
                rounds.add(each, engine.requests, find)
        self._clock.at = notice.at
        engine.recorded(notice.scheduler, notice.iteration, rounds, notice.at)
        self._forget(rounds.ended)
        for late in untold:
            if isinstance(late, AbortedIds):
                self._aborted(late)

    def _aborted(self, notice: AbortedIds, by: str = "client") -> None:
        self._clock.at = notice.at
        by_engine: dict[int, tuple[EngineAccount, list[RequestAccount]]] = {}
        for name in notice.ids:
            engine = self._placed.get(name, self._first)
            if (account := self._find(engine, name)) is not None:
                by_engine.setdefault(id(engine), (engine, []))[1].append(account)
        for engine, accounts in by_engine.values():
            engine.aborted(accounts, notice.at, by)
        self._forget(notice.ids)

    def _forget(self, names: Iterable[str]) -> None:
        """Forgets those of the requests that have ended."""
        for name in names:
            engine = self._placed.get(name)
            if engine is not None:
                request_id = engine.requests[name].request_id
                if request_id not in engine.accounting.in_flight:
                    del self._placed[name], engine.requests[name]
