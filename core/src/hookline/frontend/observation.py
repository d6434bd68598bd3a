"""Chooses the stat loggers by name and passes them each step's events as one batch."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

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
from hookline.frontend.observing import ObserverAddress, request_ids_for_hooks
from hookline.frozen import frozen_json, frozen_map
from hookline.pages import RoutesOf
from hookline.payloads import (
    CacheChanged,
    CliOptions,
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
from hookline.stats.iteration_stats import IterationStats
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
    """

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
        for name in _chosen(config):
            with around(name):
                self._lanes[name] = self._load(name, config, kept)
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
        self.lost = 0
        self.address: ObserverAddress | None = None
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

    @property
    def lanes(self) -> tuple[LaneStats, ...]:
        """State of each lane, which has dropped what was lost before it."""
        stats = self._fanout.stats
        if not self.lost:
            return stats
        return tuple(replace(each, dropped=each.dropped + self.lost) for each in stats)

    def listens(self, hook: str) -> bool:
        """Whether any logger or the recorder implements the hook."""
        return hook in self.hooks

    def add_routes(self, routes_of: RoutesOf) -> None:
        """Lets each logger register its pages."""
        for logger, names in self._lanes.items():
            routes = routes_of(logger)
            with self._around(logger):
                for name in names:
                    self._registry.call_one(name, "add_routes", routes=routes)

    def started(
        self,
        facts: EngineFacts,
        clock: ClockPair,
        *,
        restart_cause: str = "",
        resubmitted: int = 0,
    ) -> None:
        if self.listens("engine_started"):
            started = EngineStarted(
                facts=replace(facts, sections=frozen_json(facts.sections)),
                clock=clock,
                restart_cause=restart_cause,
                resubmitted=resubmitted,
            )
            self._tell("engine_started", started=started)

    def stopped(self, engine_index: int, reason: str) -> None:
        if self.listens("engine_stopped"):
            stopped = EngineStopped(engine_index=engine_index, reason=reason)
            self._tell("engine_stopped", stopped=stopped)

    def failed(
        self,
        engine_index: int,
        reason: str,
        open_requests: int,
        *,
        is_final: bool = True,
    ) -> None:
        if self.listens("engine_failed"):
            failed = EngineFailed(
                engine_index=engine_index,
                reason=reason,
                open_requests=open_requests,
                is_final=is_final,
            )
            self._tell("engine_failed", failed=failed)

    def observe(
        self,
        output: StepOutput,
        iteration: IterationStats,
        facts: Mapping[int, RequestFacts],
    ) -> None:
        """Passes one step, or one state, to the loggers: events first, then the sum."""
        batch = self._request_notices(output, frozen_map(facts))
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
        if self.listens("http_answered"):
            self._tell("http_answered", answered=answered)

    def front_end_changed(self, parts: tuple[FrontEndPart, ...]) -> None:
        if self.listens("front_end_changed"):
            changed = FrontEndChanged(parts=parts)
            self._tell("front_end_changed", changed=changed)

    def records_logged(self, logged: RecordsLogged) -> None:
        if self.listens("records_logged"):
            self._tell("records_logged", logged=logged)

    def flush(self, timeout_seconds: float) -> bool:
        return self._fanout.flush(timeout_seconds)

    def close(self, timeout_seconds: float) -> bool:
        """Waits for the loggers to process everything; False on timeout."""
        return self._fanout.close(timeout_seconds)

    def _request_notices(
        self, output: StepOutput, facts: Mapping[int, RequestFacts]
    ) -> list[Notice]:
        index, events, batch = output.engine_index, output.events, list[Notice]()
        hooks = self.hooks
        if events.queued and "requests_queued" in hooks:
            queued = RequestsQueued(
                engine_index=index, events=tuple(events.queued), facts=facts
            )
            batch.append(("requests_queued", {"queued": queued}))
        if events.preempted and "requests_preempted" in hooks:
            preempted = RequestsPreempted(
                engine_index=index, events=tuple(events.preempted), facts=facts
            )
            batch.append(("requests_preempted", {"preempted": preempted}))
        if events.scheduled and "requests_scheduled" in hooks:
            scheduled = RequestsScheduled(
                engine_index=index, events=tuple(events.scheduled), facts=facts
            )
            batch.append(("requests_scheduled", {"scheduled": scheduled}))
        if events.new_tokens and "tokens_generated" in hooks:
            generated = TokensGenerated(
                engine_index=index,
                events=freeze_tokens(events.new_tokens),
                facts=facts,
            )
            batch.append(("tokens_generated", {"generated": generated}))
        if events.cache_changes is not None and "cache_changed" in hooks:
            freeze_changes(events.cache_changes)
            changed = CacheChanged(engine_index=index, changes=events.cache_changes)
            batch.append(("cache_changed", {"changed": changed}))
        if events.finished and "requests_finished" in hooks:
            finished = RequestsFinished(
                engine_index=index,
                events=frozen_finished(events.finished),
                facts=facts,
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

    def _tell(self, hook: str, **arguments: object) -> None:
        self._deliver([(hook, arguments)])

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


class _Declared(CliOptions):
    """Collects the keys that a logger declares."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    def add(self, key: str, *, help: str, default: str | None = None) -> None:  # noqa: A002, ARG002
        self.keys.append(key)


def _check_options(registry: PluginRegistry, plugin: str, given: Iterable[str]) -> None:
    """Checks option keys; loggers without `add_cli_options` check them themselves.

    Args:
        registry: The registry of the logger.
        plugin: The logger's name in the registry.
        given: Keys of `--stat-logger-option`.

    Raises:
        ConfigError: The logger declares its options, and a key is not among them.
    """
    declared = _Declared()
    registry.call_one(plugin, "add_cli_options", options=declared)
    for key in given if declared.keys else ():
        if key not in declared.keys:
            option = f"{plugin}.{key}"
            raise ConfigError(option, unknown("option", key, sorted(declared.keys)))
