"""Builds the engine that a configuration names, and the core of Hookline's own."""

from dataclasses import replace
from functools import partial
from typing import Protocol, cast

from hookline.clock import Clock, SystemClock
from hookline.config.engine import OWN_ENGINE, EngineConfig
from hookline.engine.commands import EngineMessage
from hookline.engine.engine_core import EngineCore
from hookline.engine.engine_loop import EngineLoop, Receive
from hookline.engine.scheduler.extension import scheduler_sides
from hookline.engine.tap import Tap, TapContext
from hookline.engine.worker.executor import Executor, ExecutorContext
from hookline.engine_setup.engine_facts import engine_facts
from hookline.engine_setup.executor_factory import (
    AdaptFactory,
    ExecutorFactory,
    load_executor_factory,
)
from hookline.engine_setup.making import make_scheduler_parts
from hookline.events import ClockPair
from hookline.payloads import EngineFacts
from hookline.plugin_loading.extensions import load_extensions
from hookline.plugin_loading.logits_processors import check_logits_processors
from hookline.plugins.calling import call_plugin
from hookline.plugins.kinds import ENGINE, TAP
from hookline.startup_timer import StartupTimer
from hookline_registry import as_one, installed


class DrivenEngine(Protocol):
    """An engine that one thread of its process drives, like Hookline's own.

    Attributes:
        bell: Descriptor that is readable once there is more to do than commands say.
    """

    facts: EngineFacts
    bell: int | None

    @property
    def has_work(self) -> bool: ...

    def clock_pair(self) -> ClockPair: ...

    def run_once(self, receive: Receive, timeout_seconds: float) -> list[EngineMessage]:
        """Takes all waiting commands, then steps, or waits in `receive`.

        A command that it does not know gets a `refusal`. What it raises ends it.
        """

    def close(self) -> None: ...


def build_engine(
    config: EngineConfig, adapt: AdaptFactory | None = None
) -> DrivenEngine:
    """Builds the engine that the configuration names; see `build_core`."""
    if config.engine != OWN_ENGINE:
        call = partial(call_plugin, ENGINE, config.engine, config, option="engine")
        if (made := call(hook="create_engine")) is not None:
            return cast("DrivenEngine", made)
    return build_loop(build_core(config, SystemClock(), adapt))


def build_core(
    config: EngineConfig, clock: Clock, adapt: AdaptFactory | None = None
) -> EngineCore:
    """Builds an engine core with the executor that the configuration names.

    Its facts report how long each phase of the start took.

    Args:
        config: The engine's configuration.
        clock: Time source.
        adapt: Adapts the executor's factory, for an engine that shares its model with
            others; None for one that does not.

    Raises:
        ModelLoadError: The model cannot be loaded or served.
        ConfigError: An option does not fit the model, the machine or a plugin.
    """
    timer = StartupTimer(clock)
    with timer.phase("start engine"):
        factory = load_executor_factory(config.executor_name)
        config = factory.resolve(config, timer)
        extensions = load_extensions(config, capabilities=factory.capabilities)
        context = ExecutorContext(
            config=config, clock=clock, timer=timer, extensions=extensions
        )
        executor = build_executor(factory if adapt is None else adapt(factory), context)
        sides = scheduler_sides(extensions)
        parts = make_scheduler_parts(config, executor.shape, clock, sides)
        facts = engine_facts(config, executor.shape)
        core = EngineCore(config, executor, clock, facts, parts)
    core.facts = replace(
        core.facts,
        rank_pids=executor.pids,
        rank_hosts=executor.hosts,
        startup=timer.phases(),
    )
    return core


def build_loop(core: EngineCore) -> EngineLoop:
    """Builds the loop around a core, with the taps that its configuration asks for.

    Raises:
        ConfigError: A tap cannot be made, such as one whose file cannot be written.
    """
    context = TapContext(
        config=core.config,
        facts=core.facts,
        clock=core.clock_pair(),
        scheduler=core.scheduler,
    )
    return EngineLoop(core, core.config.observers.heartbeat_seconds, make_tap(context))


def make_tap(context: TapContext) -> Tap | None:
    """Makes the taps that a configuration asks for, as one; None without any."""
    names = (each.name for each in installed(TAP.group))
    made = (call_plugin(TAP, name, context, option="tap") for name in names)
    taps = [cast("Tap", tap) for tap in made if tap is not None]
    return as_one(Tap, taps) if taps else None


def build_executor(factory: ExecutorFactory, context: ExecutorContext) -> Executor:
    """Loads the plugins first, so that their mistakes do not cost a model's loading.

    Raises:
        ModelLoadError: The model cannot be loaded or served.
        ConfigError: An option does not fit the model, the machine or a plugin.
    """
    if not factory.has_processes:  # their ranks check it, in their own processes
        check_logits_processors(context.config, factory.capabilities)
    return factory(context)
