"""One rank of a model: its device, its weights, its KV cache and its steps.

An executor drives each worker through the same phases and agrees with all of them on
the number of KV blocks. What crosses between the two is plain data.

| phase | needs | creates |
|---|---|---|
| `init_device` | – | the device, the process's memory and thread settings |
| `load_model` | `init_device` | the forward pass, prepared extensions |
| `link_stages` | `load_model` | memory between pipeline stages |
| `profile` | `link_stages` | nothing; returns how many KV blocks fit |
| `allocate` | `load_model` | KV cache, input buffers, an empty batch |
| `warm_up` | `allocate` | the runner with its CUDA graphs; steps may be executed |
"""

import gc
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NoReturn

from hookline.engine.worker.executor import Compute, ExecutorContext, Start
from hookline.engine.worker.extension import worker_sides
from hookline.engine.worker.followed_rows import FollowedRows
from hookline.engine.worker.loaded_model import LoadModel
from hookline.engine.worker.machine import Machine
from hookline.engine.worker.model_runner import ModelRunner
from hookline.engine.worker.rank_context import SINGLE_RANK, RankContext, StepRunner
from hookline.engine.worker.runner_maker import Allocation, MakeProcessors, RunnerMaker
from hookline.stats.step_work import RankUse
from hookline.step import ModelShape, SleepLevel, StepPlan
from hookline_kernels.sampling import choose_sampling

if TYPE_CHECKING:  # it is only read
    from hookline.config.engine import EngineConfig

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WorkerSetup:
    """What a worker knows neither of machines nor of model files.

    Attributes:
        init_device: Chooses the device and sets up memory and threads of this process;
            may raise `ConfigError`.
        load_model: Loads the configured model.
        make_processors: Makes the logits processors.
    """

    init_device: Callable[["EngineConfig"], Machine]
    load_model: LoadModel
    make_processors: MakeProcessors


def _sleeping(_: StepPlan) -> NoReturn:
    raise AssertionError("no step may be executed before warm_up, or during sleep")


class Worker:
    """One rank of a model. All methods are called from one thread, in phase order.

    Attributes:
        config: The engine's configuration.
        compute: Computes a step, untuned.
        execute: Likewise, as the machine has tuned it. Any exception is fatal to the
            engine.
        start: Starts a step before the one before it has ended; None if `execute`
            computes one after the other.
    """

    def __init__(
        self,
        context: ExecutorContext,
        setup: WorkerSetup,
        ranks: RankContext = SINGLE_RANK,
    ) -> None:
        """Keeps what the phases need; they do the work.

        Args:
            context: The engine's configuration and parts.
            setup: How the device is initialised and the model loaded.
            ranks: What this rank has of the others.
        """
        self._setup, self._ranks = setup, ranks
        self.config = context.config
        self._timer = context.timer
        self._extensions = FollowedRows(
            worker_sides(context.extensions.values(), context.config.parallel)
        )
        self._machine: Machine | None = None
        self._feature_layers: tuple[int, ...] = ()
        self._maker: RunnerMaker | None = None
        self._allocated: Allocation | None = None
        self._runner: StepRunner | None = None
        self.compute: Compute = _sleeping
        self.execute: Compute = _sleeping
        self.start: Start | None = None

    def init_device(self) -> None:
        """Chooses the device and sets up memory and threads of this process.

        Raises:
            ConfigError: The configured device does not exist, or is a GPU for several
                engines.
        """
        with self._timer.phase("init device"):
            self._machine = self._setup.init_device(self.config)

    def load_model(self) -> None:
        """Reads this rank's weights and chooses how to compute with them.

        Raises:
            ModelLoadError: The model cannot be loaded or served.
            ConfigError: An option or an extension does not fit the model.
        """
        machine = self._machine
        assert machine is not None, "init_device comes first"
        kept = self._allocated
        model = self._setup.load_model(
            self.config,
            machine.platform,
            self._timer,
            extensions=self._extensions,
            ranks=self._ranks,
            cache_key=None if kept is None else kept.cache_key,
        )
        self._ranks.end_loading(model)
        platform = machine.platform
        may_compile = model.upgrade is None and self.config.executor.may_compile
        self._maker = RunnerMaker(
            config=self.config,
            platform=platform,
            isa=machine.isa,
            model=model,
            may_compile=may_compile,
            extensions=self._extensions,
            sampling=choose_sampling(
                model.dtype, may_compile=may_compile, platform=platform
            ),
            device_steps=machine.device_steps(
                self.config,
                model,
                self._extensions.most_drafts,
                self._extensions.graph_obstacle,
            ),
            make_processors=self._setup.make_processors,
            ranks=self._ranks,
        )

    @property
    def feature_layers(self) -> tuple[int, ...]:
        """Layers whose inputs an extension needs on this rank."""
        return self.maker.model.feature_layers

    def link_stages(self, feature_layers: tuple[int, ...]) -> None:
        """Gets ready to exchange hidden states with other pipeline stages, if any.

        Args:
            feature_layers: Those of the rank that drafts.

        Raises:
            ConfigError: The model does not show the inputs of its layers.
        """
        self._feature_layers = feature_layers
        self._ranks.link_stages(self.maker.model, feature_layers)

    def profile(self) -> int:
        """Returns how many KV blocks this rank can hold.

        Runs the largest steps to measure their memory, unless the configuration fixes
        the number of blocks or their memory.

        Raises:
            ConfigError: Not even one block fits.
        """
        assert self._machine is not None
        return self._machine.count_blocks(self.maker, self._timer)

    def allocate(self, num_blocks: int) -> None:
        """Allocates a KV cache of the agreed number of blocks, and input buffers.

        Raises:
            ConfigError: An extension cannot use the cache.
        """
        maker = self.maker
        with self._timer.phase("allocate KV cache"):
            self._allocated = Allocation.of(maker, num_blocks)

    def warm_up(self) -> ModelShape:
        """Builds the runner, captures CUDA graphs and tunes the machine.

        Returns:
            What the core must know of the model.

        Raises:
            ConfigError: An extension cannot use its part of the cache.
        """
        with self._timer.phase("warm up"):
            shape = self._serve()
        self._ranks.join()
        return shape

    def assist(self) -> RankUse:
        """Computes this rank's experts in a step of other engines.

        Any exception is fatal to the engine.
        """
        return self._ranks.assist()

    def sleep(self, level: SleepLevel) -> None:
        """As `Executor.sleep`: releases the KV cache's memory, or also the weights.

        At level `WEIGHTS` extensions drop their weights, too.
        """
        assert self._machine is not None
        self._abandon_upgrade()
        self._machine.rest()
        self._runner = None
        self.compute = self.execute = _sleeping
        if level is SleepLevel.WEIGHTS:
            self._extensions.unload()
            self._maker = None
            self._ranks.leave()
        self.allocated.memory.free()
        gc.collect()
        self._machine.return_memory()

    def wake_up(self) -> None:
        """As `Executor.wake_up`: restores what `sleep` released, and warms up.

        Raises:
            ModelLoadError: The weights can no longer be loaded, or do not fit the
                cache. The worker sleeps on.
        """
        self._timer = self._timer.renewed()
        if self._maker is None:
            self.load_model()
            self.link_stages(self._feature_layers)
        self.allocated.memory.restore()
        self.warm_up()
        for phase in self._timer.phases():
            _log.info("%s took %.2f s", phase.name, phase.seconds)

    def close(self) -> None:
        """Ends the threads of plugins and drops the model; valid in every phase."""
        self._abandon_upgrade()
        if self._machine is not None:
            self._machine.close()
        if self._allocated is not None:
            self._allocated.close()
        self._extensions.close()
        self.compute = self.execute = _sleeping
        self._runner = self._maker = self._allocated = None

    @property
    def maker(self) -> RunnerMaker:
        """What runners are built with."""
        assert self._maker is not None, "load_model comes first"
        return self._maker

    @property
    def allocated(self) -> Allocation:
        """The memory that the worker serves with."""
        assert self._allocated is not None, "allocate comes first"
        return self._allocated

    def use(self, maker: RunnerMaker, allocated: Allocation) -> None:
        """Computes the next steps with these, over the same keys and values."""
        self._maker, self._allocated = maker, allocated
        self._serve()

    def _serve(self) -> ModelShape:
        """Builds the runner, and tunes the machine."""
        assert self._machine is not None
        shape = self._build_runner(self.allocated)
        assert self._runner is not None
        self.compute = self._ranks.around_step(self._runner.execute)
        self.execute = self._machine.tune(self)
        self.start = None
        if isinstance(self._runner, ModelRunner) and self._runner.draws_ahead:
            self.start = self._runner.start
        if (upgrade := self.maker.model.upgrade) is not None:
            self.execute = upgrade.serve_meanwhile(self)
        return shape

    def _abandon_upgrade(self) -> None:
        if self._maker is not None and self._maker.model.upgrade is not None:
            self._maker.model.upgrade.abandon()

    def _build_runner(self, kept: Allocation) -> ModelShape:
        maker = self.maker
        forward = maker.forward(kept.feed)
        self._runner = maker.runner(
            forward, kept.feed, kept.cache, kept.state, serves=True
        )
        model = maker.model
        return replace(
            model.shape,
            num_kv_blocks=kept.num_blocks,
            kernels=maker.kernels_in_use(forward, kept.cache),
            isa=maker.isa,
            kv_cache_spec_kind=kept.cache.spec_kind,
            rank_sections=(self._extensions.describe(),),
        )
