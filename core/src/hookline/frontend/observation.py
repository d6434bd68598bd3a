"""Chooses the stat loggers by name and passes them each step's events as one batch."""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from hookline import hookspecs
from hookline.config.engine import EngineConfig
from hookline.events import ClockPair, StepOutput, StepRecord
from hookline.exceptions import ConfigError
from hookline.front_end_parts import FrontEndPart
from hookline.frontend.freezing import (
    freeze_changes,
    freeze_record,
    freeze_stats,
    freeze_tokens,
    frozen_finished,
)
from hookline.frontend.observing import (
    REQUEST_HOOKS,
    ObserverAddress,
    TellFirst,
    request_ids_for_hooks,
)
from hookline.frozen import frozen_json, frozen_map
from hookline.pages import RoutesOf
from hookline.payloads import (
    CacheChanged,
    EngineFacts,
    EngineFailed,
    EngineStarted,
    EngineStopped,
    FrontEndChanged,
    HttpAnswered,
    LoggerContext,
    RecordsLogged,
    RequestsFinished,
    RequestsPreempted,
    RequestsQueued,
    RequestsScheduled,
    StateChanged,
    StepFinished,
    TokensGenerated,
)
from hookline.plugins.kinds import LOGGER
from hookline.request import RequestFacts
from hookline.stats.finished_request import FinishedRequest
from hookline.stats.iteration_stats import IterationStats
from hookline.tells import Tells
from hookline.transport.engine_client import SecondaryClientEnded
from hookline_registry import (
    Around,
    BrokenPluginError,
    Fanout,
    LaneStats,
    Notice,
    PluginRegistry,
)
from hookline_registry.spelling import unknown

_log = logging.getLogger(__name__)
_RECORDER = "recorder of metrics"
"""Name under which the recorder is registered, which no logger has."""


class Observers:
    """The loggers of one front end, each in its own lane.

    What nobody listens to is neither built nor frozen.

    Attributes:
        hooks: Names of the hooks that any logger or the recorder implements.
        is_listening: Whether there is a logger or a recorder.
        address: None, because the loggers are in this process.
        lost: Number of batches that were lost on their way here, which no lane got.
        tell_first: Called before a logger's page is made; None if all is told at once.
    """

    address: ObserverAddress | None = None
    tell_first: TellFirst | None = None
    lost = 0

    def __init__(
        self,
        config: EngineConfig,
        recorder: object | None = None,
        *,
        around: Around = nullcontext,
        kept: Path | None = None,
    ) -> None:
        """Loads the loggers that the configuration names, and only those.

        Args:
            config: The engine's configuration.
            recorder: Called with every payload first, without a lane: it is never late.
            around: Encloses whatever a logger does on its lane or before.
            kept: Folder of what loggers keep for those of a process to come.

        Raises:
            RegistryError: A logger is unknown or broken.
            ConfigError: An option belongs to a logger that was not chosen.
        """
        self._registry = PluginRegistry("hookline", hookspecs)
        self._around = around
        self._lanes: dict[str, list[str]] = {}
        self._needs: dict[str, set[Tells]] = {}
        for name in _chosen(config):
            with around(name):
                self._add(name, self._load(name, config, kept))
        self._fanout = Fanout(
            self._registry,
            self._lanes,
            bound=config.observers.lane_batches,
            failures=config.observers.breaker_failures,
            cool_down_seconds=config.observers.breaker_seconds,
            linger_seconds=config.observers.linger_seconds,
            around=None if around is nullcontext else around,
        )
        self._recording = self._recorded_by(recorder)
        self.hooks = self._fanout.hooks | self._recording.keys()
        self._page_seconds = config.observers.page_wait_seconds
        self.is_listening = bool(self._lanes) or recorder is not None

    def _recorded_by(
        self, recorder: object | None
    ) -> Mapping[str, Callable[..., object]]:
        """Returns a recorder's hooks, which are called without a lane."""
        if recorder is None:
            return {}
        self._registry.register(recorder, _RECORDER)
        hooks = self._registry.hooks_of(_RECORDER)
        return {hook: getattr(recorder, hook) for hook in hooks}

    def _load(self, name: str, config: EngineConfig, kept: Path | None) -> list[str]:
        """Returns the registered names of the logger's module and of its object."""
        context = LoggerContext(
            name=name,
            config=deepcopy(config),  # its maps can be changed
            options=frozen_map(dict(config.observers.options.get(name, {}))),
            kept=None if kept is None else kept / f"{name}.kept",
        )
        if ":" in name:
            return [self._registry.load_path(name, lambda cls: cls(context))]
        plugin = self._registry.load(LOGGER, name)
        _check_options(self._registry, plugin, context.options)
        try:
            made = self._registry.create(plugin, LOGGER.hook, context=context)
        except BrokenPluginError as error:
            if isinstance(error.__cause__, ConfigError):  # the user's mistake
                raise error.__cause__ from None
            raise
        if made is None:
            return [plugin]
        self._registry.register(made, f"{name}.logger")
        return [plugin, f"{name}.logger"]

    def _add(self, name: str, names: list[str]) -> None:
        self._lanes[name] = names
        asked = [self._registry.call_one(each, "logger_needs") for each in names]
        needs = cast("list[Collection[Tells] | None]", asked)
        self._needs[name] = {each for some in needs for each in some or ()}

    @property
    def lanes(self) -> tuple[LaneStats, ...]:
        """State of each lane, which has dropped what was lost before it."""
        lost, stats = self.lost, self._fanout.stats
        return tuple(replace(each, dropped=each.dropped + lost) for each in stats)

    def listens(self, hook: str) -> bool:
        """Whether any logger or the recorder implements the hook."""
        return hook in self.hooks

    def add_routes(
        self, routes_of: RoutesOf, tell_first: TellFirst | None = None
    ) -> None:
        """Lets each logger register its pages."""
        self.tell_first = tell_first
        for logger, names in self._lanes.items():
            routes = routes_of(logger)
            with self._around(logger):
                for name in names:
                    self._registry.call_one(name, "add_routes", routes=routes)

    def settle(self, logger: str) -> float:
        seconds = self._page_seconds
        untold = 0.0 if self.tell_first is None else self.tell_first(seconds)
        return max(untold, self._fanout.settle(logger, seconds))

    def started(
        self,
        facts: EngineFacts,
        clock: ClockPair,
        *,
        restart_cause: str = "",
        resubmitted: int = 0,
        ended_before: int = 0,
    ) -> None:
        for name, needs in self._needs.items():
            if lacking := sorted(needs.difference(facts.tells)):
                needs.difference_update(lacking)  # said once
                text = "logger %s lacks what engine %d does not tell: %s"
                _log.warning(text, name, facts.engine_index, ", ".join(lacking))
        self._tell(
            "engine_started",
            lambda: EngineStarted(
                facts=replace(facts, sections=frozen_json(facts.sections)),
                clock=clock,
                restart_cause=restart_cause,
                resubmitted=resubmitted,
                ended_before=ended_before,
            ),
        )

    def stopped(self, engine_index: int, reason: str) -> None:
        made = partial(EngineStopped, engine_index=engine_index, reason=reason)
        self._tell("engine_stopped", made)

    def failed(
        self,
        failed: EngineFailed,
        received: int | None = None,  # noqa: ARG002 - to be added to other front ends'
        waiting: Collection[int] = (),  # noqa: ARG002 - in case this front end ends
    ) -> None:
        self._tell("engine_failed", lambda: failed)

    def observe(
        self,
        output: StepOutput,
        iteration: IterationStats,
        facts: Mapping[int, RequestFacts],
    ) -> None:
        """Passes one step, or one state, to the loggers: events first, then the sum."""
        batch = self._request_notices(output, iteration.finished, frozen_map(facts))
        if output.record is None:
            if self.listens("state_changed"):
                batch.append(self._state(output, iteration))
        elif self.listens("step_finished"):
            batch.append(self._step(output, output.record, iteration))
        self._deliver(batch)

    def observed_requests(self, output: StepOutput) -> set[int]:
        """Ids of the requests whose facts `observe` needs with this output."""
        return request_ids_for_hooks(output, self.hooks.__contains__)

    def front_end_ended(self, ended: SecondaryClientEnded) -> None:
        """Does nothing: front ends that can end share an observer process."""

    def http_answered(self, answered: HttpAnswered) -> None:
        self._tell("http_answered", lambda: answered)

    def front_end_changed(self, parts: tuple[FrontEndPart, ...]) -> None:
        self._tell("front_end_changed", partial(FrontEndChanged, parts=parts))

    def records_logged(self, logged: RecordsLogged) -> None:
        self._tell("records_logged", lambda: logged)

    def flush(self, timeout_seconds: float) -> bool:
        return self._fanout.flush(timeout_seconds)

    def close(self, timeout_seconds: float) -> bool:
        """Waits for the loggers to process everything; False on timeout."""
        return self._fanout.close(timeout_seconds)

    def _request_notices(
        self,
        output: StepOutput,
        ended: tuple[FinishedRequest, ...],
        facts: Mapping[int, RequestFacts],
    ) -> list[Notice]:
        index, events, batch = output.engine_index, output.events, list[Notice]()
        hooks = self.hooks
        kinds: tuple[tuple[str, Any, Callable[..., Any]], ...] = (
            ("queued", RequestsQueued, tuple),
            ("preempted", RequestsPreempted, tuple),
            ("scheduled", RequestsScheduled, tuple),
            ("new_tokens", TokensGenerated, freeze_tokens),
        )
        for name, payload, frozen in kinds:
            told, hook = getattr(events, name), REQUEST_HOOKS[name]
            if told and hook in hooks:
                made = payload(engine_index=index, events=frozen(told), facts=facts)
                batch.append((hook, {hook.rpartition("_")[2]: made}))
        if events.cache_changes is not None and "cache_changed" in hooks:
            freeze_changes(events.cache_changes)
            changed = CacheChanged(engine_index=index, changes=events.cache_changes)
            batch.append(("cache_changed", {"changed": changed}))
        if (ended or events.finished) and "requests_finished" in hooks:
            finished = RequestsFinished(
                engine_index=index,
                events=frozen_finished(events.finished),
                facts=facts,
                requests=ended,
            )
            batch.append(("requests_finished", {"finished": finished}))
        return batch

    def _step(
        self, output: StepOutput, record: StepRecord, iteration: IterationStats
    ) -> Notice:
        freeze_record(record)
        freeze_stats(output.stats)
        step = StepFinished(
            engine_index=output.engine_index,
            record=record,
            iteration=iteration,
            scheduler=output.stats,
        )
        return "step_finished", {"step": step}

    def _state(self, output: StepOutput, iteration: IterationStats) -> Notice:
        freeze_stats(output.stats)
        state = StateChanged(
            engine_index=output.engine_index,
            cause=output.cause,
            at=output.at,
            scheduler=output.stats,
            iteration=iteration,
            lanes=self.lanes,
            clock=output.clock,
        )
        return "state_changed", {"state": state}

    def _tell(self, hook: str, make: Callable[[], object]) -> None:
        if hook in self.hooks:
            self._deliver([(hook, {hook.rpartition("_")[2]: make()})])

    def _deliver(self, batch: list[Notice]) -> None:
        for hook, arguments in batch if self._recording else ():
            if (record := self._recording.get(hook)) is not None:
                record(**arguments)
        self._fanout.submit(batch)


def _chosen(config: EngineConfig) -> Iterable[str]:
    """Returns the names of the loggers; raises `ConfigError` for others' options."""
    chosen = dict.fromkeys((*config.observers.stat_loggers, *config.implied_loggers))
    for name in config.observers.options:
        if name not in chosen:
            raise ConfigError("stat-logger-option", f"logger {name!r} was not chosen")
    return chosen


def _check_options(registry: PluginRegistry, plugin: str, given: Iterable[str]) -> None:
    """Raises `ConfigError` for a key that is not among those that a logger declares.

    Loggers without `add_cli_options` check their options themselves.
    """
    declared: list[str] = []
    noting = SimpleNamespace(add=lambda key, **_: declared.append(key))
    registry.call_one(plugin, "add_cli_options", options=noting)
    for key in given if declared else ():
        if key not in declared:
            option = f"{plugin}.{key}"
            raise ConfigError(option, unknown("option", key, sorted(declared)))
