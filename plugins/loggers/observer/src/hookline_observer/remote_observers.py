"""The loggers of a front end, in an observer process."""

import logging
import signal
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import msgspec

from hookline.clock import SystemClock
from hookline.config import EngineConfig
from hookline.events import ClockPair, StepOutput
from hookline.front_end_parts import FrontEndPart
from hookline.frontend.observing import (
    OUTPUT_HOOKS,
    REQUEST_HOOKS,
    ObserverAddress,
    TellFirst,
    request_ids_for_hooks,
)
from hookline.frozen import plain
from hookline.pages import RoutesOf
from hookline.payloads import (
    REMOVED,
    EngineFacts,
    EngineFailed,
    HttpAnswered,
    RecordsLogged,
)
from hookline.request import RequestFacts
from hookline.sections import NO_SECTIONS
from hookline.stats.iteration_stats import IterationStats
from hookline.stats.scheduler_stats import SchedulerStats
from hookline.transport.engine_client import SecondaryClientEnded
from hookline_observer.link import ObserverLink
from hookline_observer.merged_parts import Key, part_key
from hookline_observer.messages import (
    Alive,
    Answered,
    Ended,
    Failed,
    Logged,
    Notice,
    Observed,
    Started,
    Stopped,
    changed,
)
from hookline_observer.outbox import Outbox, Waiting
from hookline_observer.owner import END_SECONDS, ObserverProcess
from hookline_observer.pages_address import ObserverPages, pages_socket
from hookline_registry import LaneStats

READY_SECONDS = 60.0
HUNG_END_SECONDS = 2.0
_LINGER_SECONDS = 1.0
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _ReportedEngine:
    """What a new observer process has to know of an engine."""

    facts: EngineFacts
    clock: ClockPair
    stats: SchedulerStats | None = None
    at: int = -1
    failed: Failed | None = None

    def repeated(self) -> list[Notice]:
        """Its start, and its end; requests that have ended were not received since."""
        stats = SchedulerStats() if self.stats is None else self.stats
        ended = sum(stats.totals.finished.values()) - stats.totals.migrated_in
        started = Started(self.facts, self.clock, ended_before=ended, since=self.at)
        return [started] if self.failed is None else [started, self.failed]


class RemoteObservers:
    """Tells an observer process what happens, without ever waiting for it.

    Notices are encoded at once and sent together, a few times per second. If the
    process does not take them, the oldest are dropped and counted.

    Attributes:
        is_listening: Whether any logger implements any hook.
        address: How this front end reaches the process.
    """

    def __init__(
        self,
        config: EngineConfig,
        address: ObserverAddress,
        *,
        process: ObserverProcess | None = None,
    ) -> None:
        """Waits until the observer process is ready.

        Args:
            config: The engine's configuration.
            address: The observer process.
            process: The process, if it is to end with these observers.

        Raises:
            ObserverSilentError: It is not ready in time.
        """
        self._process = process
        self.address = address
        self._clock = SystemClock()
        self._encode = msgspec.msgpack.Encoder(enc_hook=plain).encode
        # A logger's lane holds as many batches; one of them is one notice.
        self._outbox = Outbox(config.observers.lane_batches)
        self._lock = threading.Lock()
        self._engines: dict[int, _ReportedEngine] = {}
        self._parts: dict[Key, FrontEndPart] = {}
        self._link = ObserverLink(
            address,
            self._outbox,
            linger_seconds=config.observers.linger_seconds,
            begin_again=self._begin_again,
        )
        alive = _alive(self._link)
        self._hooks = frozenset(alive.hooks)
        self._unheard = unheard_fields(self._hooks)
        self.is_listening = bool(self._hooks)
        self._pages = ObserverPages(
            pages_socket(address.folder), alive.routes, alive.paths, self._link
        )

    @property
    def lanes(self) -> tuple[LaneStats, ...]:
        """None: the lanes are in the observer process."""
        return ()

    @property
    def dropped(self) -> int:
        """Number of notices that the observer process never gets."""
        return self._outbox.dropped

    def listens(self, hook: str) -> bool:
        """Whether any logger implements the hook."""
        return hook in self._hooks

    def add_routes(
        self,
        routes_of: RoutesOf,  # noqa: ARG002
        tell_first: TellFirst | None = None,
    ) -> ObserverPages:
        """Returns the pages, which the observer process serves.

        It gets the signals, too, to which loggers give a meaning.
        """
        self._link.tell_first = tell_first
        is_main = threading.current_thread() is threading.main_thread()
        if self._process is not None and is_main:
            signal.signal(signal.SIGUSR2, self._process.pass_on)
        return self._pages

    def settle(self, logger: str) -> float:  # noqa: ARG002
        """Returns 0: that process makes the pages."""
        return 0.0

    def started(
        self,
        facts: EngineFacts,
        clock: ClockPair,
        *,
        restart_cause: str = "",
        resubmitted: int = 0,
    ) -> None:
        with self._lock:
            self._engines[facts.engine_index] = _ReportedEngine(facts, clock)
            self._tell(Started(facts, clock, restart_cause, resubmitted))

    def stopped(self, engine_index: int, reason: str) -> None:
        with self._lock:
            if reason == REMOVED:
                self._engines.pop(engine_index, None)
            self._tell(Stopped(engine_index, reason))

    def failed(
        self,
        failed: EngineFailed,
        received: int | None = None,
        waiting: Collection[int] = (),
    ) -> None:
        index, reason, is_final = failed.engine_index, failed.reason, failed.is_final
        with self._lock:
            if (engine := self._engines.get(index)) is not None:
                engine.failed = Failed(index, reason, 0, is_final)
            ended, ids = failed.open_requests, tuple(waiting)
            self._tell(Failed(index, reason, ended, is_final, received, ids))

    def observe(
        self,
        output: StepOutput,
        iteration: IterationStats,
        facts: Mapping[int, RequestFacts],
    ) -> None:
        """Sends one step, or one state, without what no logger is told of."""
        observed = None
        if not self._hooks.isdisjoint(OUTPUT_HOOKS):
            events = msgspec.structs.replace(output.events, **self._unheard)
            heard = msgspec.structs.replace(output, events=events, sections=NO_SECTIONS)
            observed = Observed.made_of(heard, iteration, facts)
        with self._lock:
            if (engine := self._engines.get(output.engine_index)) is not None:
                engine.stats, engine.at = output.stats, output.at
            if observed is not None:
                self._tell(observed)

    def observed_requests(self, output: StepOutput) -> set[int]:
        """Ids of the requests whose facts `observe` needs with this output."""
        return request_ids_for_hooks(output, self.listens)

    def front_end_ended(self, ended: SecondaryClientEnded) -> None:
        self._tell(Ended(ended.engine_index, ended.client, list(ended.recent)))

    def http_answered(self, answered: HttpAnswered) -> None:
        if not self.listens("http_answered"):
            return
        in_flight = tuple((*key, count) for key, count in answered.in_flight.items())
        self._tell(Answered(answered.exchanges, in_flight, answered.missed))

    def front_end_changed(self, parts: tuple[FrontEndPart, ...]) -> None:
        with self._lock:
            self._parts.update((part_key(each), each) for each in parts)
            if self.listens("front_end_changed"):
                self._tell(changed(parts))

    def records_logged(self, logged: RecordsLogged) -> None:
        if self.listens("records_logged"):
            self._tell(Logged(logged))

    def flush(self, timeout_seconds: float) -> bool:
        return self._link.flush(timeout_seconds)

    def close(self, timeout_seconds: float) -> bool:
        """Waits for the loggers to process everything; False on timeout."""
        is_complete = self._link.flush(timeout_seconds)
        self._link.close(_LINGER_SECONDS)
        if self._process is not None:
            # Loggers that have had their time get little more.
            self._process.close(
                timeout_seconds=END_SECONDS if is_complete else HUNG_END_SECONDS
            )
        return is_complete

    def _tell(self, notice: Notice) -> None:
        try:
            encoded = self._encode(notice)
        except (ValueError, OverflowError) as error:
            # A lone surrogate, or a number of more than 64 bits.
            self._outbox.lose()
            _log.warning("a notice for the loggers cannot be sent: %s", error)
            return
        self._outbox.put(encoded, self._clock.now())

    def _begin_again(self) -> None:
        """Tells a new observer process what is; for the link's thread.

        What waits follows, and it leaves out the ends that `ended_before` includes.
        """
        with self._lock:
            now = self._clock.now()
            notices = [
                Waiting(self._encode(notice), now)
                for engine in self._engines.values()
                for notice in engine.repeated()
            ]
            self._outbox.put_before_all(notices)
            parts = tuple(self._parts.values())
            if parts and self.listens("front_end_changed"):
                self._tell(changed(parts))


def _alive(link: ObserverLink) -> Alive:
    """Waits for the first sign of life; closes the link if there is none."""
    try:
        return link.wait_until_ready(READY_SECONDS)
    except BaseException:
        link.close(0.0)
        raise


def unheard_fields(hooks: Collection[str]) -> Mapping[str, object]:
    """Returns the fields of an output's events that stay here, with empty values.

    All others are sent, so that none is lost that an output may get some day.

    Args:
        hooks: Names of the hooks that loggers implement.
    """
    unheard: dict[str, object] = {
        name: [] for name, hook in REQUEST_HOOKS.items() if hook not in hooks
    }
    changes = {} if "cache_changed" in hooks else {"cache_changes": None}
    return {"evictions": [], **unheard, **changes}
