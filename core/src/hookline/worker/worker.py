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
from dataclasses import replace

import torch

from hookline.config import Kernels
from hookline.exceptions import ModelLoadError
from hookline.stats import RankUse, ThreadUse
from hookline.step.model_shape import ModelShape
from hookline.step.plan import StepPlan, StepResult
from hookline.step.sleep_level import SleepLevel
from hookline.worker.allocation import Allocation
from hookline.worker.cache_dtype import dtype_name
from hookline.worker.compiling.compiler_process import CompilerProcess
from hookline.worker.compiling.first_forward import without_kernels
from hookline.worker.compiling.upgrade import KernelUpgrade
from hookline.worker.executor_factory import ExecutorContext
from hookline.worker.extension import worker_sides
from hookline.worker.followed_rows import FollowedRows
from hookline.worker.kernels_in_use import kernels_in_use
from hookline.worker.loaded_model import load
from hookline.worker.machine import Machine, check_replicas, choose_machine
from hookline.worker.memory import count_blocks
from hookline.worker.profile import room_for_cache
from hookline.worker.rank_context import SINGLE_RANK, RankContext, StepRunner
from hookline.worker.runner_maker import RunnerMaker
from hookline.worker.startup_timer import StartupTimer
from hookline_kernels import KernelError, import_compiled
from hookline_kernels.runtime.allocator import keep_freed_memory, return_freed_memory
from hookline_kernels.runtime.page_warmer import PageWarmer
from hookline_kernels.runtime.settled_heap import settle_heap
from hookline_kernels.runtime.threads.choosing import is_chosen, take_threads
from hookline_kernels.runtime.threads.governor import ThreadGovernor

_log = logging.getLogger(__name__)


class Worker:
    """One rank of a model. All methods are called from one thread, in phase order."""

    def __init__(
        self, context: ExecutorContext, ranks: RankContext = SINGLE_RANK
    ) -> None:
        """Keeps what the phases need; they do the work.

        Args:
            context: The engine's configuration and parts.
            ranks: What this rank has of the others.
        """
        self._ranks = ranks
        self._config = context.config
        self._clock = context.clock
        self._timer = context.timer
        self._connector = context.connector
        self._extensions = FollowedRows(
            worker_sides(context.extensions.values(), context.config.parallel)
        )
        self._machine: Machine | None = None
        self._feature_layers: tuple[int, ...] = ()
        self._maker: RunnerMaker | None = None
        self._allocated: Allocation | None = None
        self._runner: StepRunner | None = None
        self._warmer: PageWarmer | None = None
        self._upgrade: KernelUpgrade[tuple[RunnerMaker, Allocation]] | None = None
        self._governor: ThreadGovernor | None = None

    def init_device(self) -> None:
        """Chooses the device and sets up memory and threads of this process.

        Raises:
            ConfigError: The configured device does not exist, or is a GPU for several
                engines.
        """
        with self._timer.phase("init device"):
            self._machine = choose_machine(self._config.executor)
            has_siblings = self._config.cache.sibling_blocks is not None
            engines = self._config.most_local + has_siblings
            check_replicas(self._machine, self._config.parallel, engines)
            keep_freed_memory()
            take_threads(self._config.executor.threads, self._config.num_concurrent)

    def load_model(self) -> None:
        """Reads this rank's weights and chooses how to compute with them.

        Raises:
            ModelLoadError: The model cannot be loaded or served.
            ConfigError: An option or an extension does not fit the model.
        """
        assert self._machine is not None
        model = load(
            self._config,
            self._machine.platform,
            self._timer,
            extensions=self._extensions,
            needs_fingerprint=self._connector is not None,
            ranks=self._ranks,
        )
        if self._allocated is not None and (
            model.cache_key != self._allocated.cache_key
        ):
            raise ModelLoadError(
                self._config.model.model,
                "its weights or configuration have changed during sleep in a way that "
                "does not fit the KV cache: restart the engine",
            )
        self._ranks.end_loading(model.hidden_size, model.dtype)
        is_final = model.with_kernels is None
        self._maker = RunnerMaker.of(
            self._config if is_final else without_kernels(self._config),
            self._machine,
            model,
            connector=self._connector,
            extensions=self._extensions,
            ranks=self._ranks,
        )

    @property
    def feature_layers(self) -> tuple[int, ...]:
        """Layers whose inputs an extension needs on this rank."""
        return self._loaded.model.feature_layers

    def link_stages(self, feature_layers: tuple[int, ...]) -> None:
        """Gets ready to exchange hidden states with other pipeline stages, if any.

        Args:
            feature_layers: Those of the rank that drafts.

        Raises:
            ConfigError: The model does not show the inputs of its layers.
        """
        self._feature_layers, model = feature_layers, self._loaded.model
        self._ranks.link_stages(
            feature_layers,
            own_layers=model.own_layers,
            hidden_size=model.hidden_size,
            dtype=model.dtype,
            forward=model.forward,
        )

    def profile(self) -> int:
        """Returns how many KV blocks this rank can hold.

        Runs the largest steps to measure their memory, unless the configuration fixes
        the number of blocks or their memory.

        Raises:
            ConfigError: Not even one block fits.
        """
        maker = self._loaded
        model = maker.model

        def room() -> int:
            with self._timer.phase("profile memory"):
                return room_for_cache(maker)

        return count_blocks(
            self._config.cache,
            self._config.scheduler,
            [
                *model.layers,
                *(layer for own in maker.extensions.own_layers for layer in own.layers),
            ],
            dtype=model.cache_dtype,
            max_model_len=model.max_model_len,
            room=room,
        )

    def allocate(self, num_blocks: int) -> None:
        """Allocates a KV cache of the agreed number of blocks, and input buffers.

        Raises:
            ConfigError: The connector cannot use the cache.
        """
        maker = self._loaded
        with self._timer.phase("allocate KV cache"):
            self._allocated = Allocation.of(maker, num_blocks)

    def warm_up(self) -> ModelShape:
        """Builds the runner, captures CUDA graphs and faults in pages of the cache.

        Returns:
            What the core must know of the model.

        Raises:
            ConfigError: An extension cannot use its part of the cache.
        """
        with self._timer.phase("warm up"):
            assert self._allocated is not None, "allocate comes first"
            shape = self._build_runner(self._allocated)
            prefault = self._config.cache.kv_cache_prefault
            self._warmer = self._allocated.warmer(prefault)
            if self._loaded.model.with_kernels is not None:
                compiler = CompilerProcess(self._config, is_background=True)
                self._upgrade = KernelUpgrade(compiler, self._build_with_kernels)
            self._governor = self._governor or self._make_governor()
            settle_heap()
        self._ranks.join()
        return shape

    def execute(self, plan: StepPlan) -> StepResult:
        """Computes a step. Any exception is fatal to the engine."""
        if (governor := self._governor) is None:
            return self._compute(plan)
        governor.begin_step()
        result = self._compute(plan)
        return replace(result, thread_use=ThreadUse(*governor.end_step()))

    def _compute(self, plan: StepPlan) -> StepResult:
        return self._ranks.end_step(self._run(plan))

    def assist(self) -> RankUse:
        """Computes this rank's experts in a step of other engines.

        Any exception is fatal to the engine.
        """
        return self._ranks.assist()

    def _run(self, plan: StepPlan) -> StepResult:
        assert self._runner is not None, "no step may be executed during sleep"
        if self._upgrade is None:
            return self._runner.execute(plan)
        if (built := self._upgrade.take()) is not None:
            self._use_kernels(*built)
            return self._runner.execute(plan)
        is_compiling = self._upgrade.is_running
        return replace(self._runner.execute(plan), kernels_compiling=is_compiling)

    def sleep(self, level: SleepLevel) -> None:
        """As `Executor.sleep`: releases the KV cache's memory, or also the weights.

        At level `WEIGHTS` extensions drop their weights, too.
        """
        assert self._allocated is not None
        gc.unfreeze()
        self._close_upgrade()
        self._close_warmer()
        self._runner = None
        if level is SleepLevel.WEIGHTS:
            self._extensions.unload()
            self._maker = None
            self._ranks.leave()
        self._allocated.memory.release()
        gc.collect()
        return_freed_memory()
        if torch.cuda.is_initialized():
            torch.cuda.empty_cache()

    def wake_up(self) -> None:
        """As `Executor.wake_up`: restores what `sleep` released, and warms up.

        Raises:
            ModelLoadError: The weights can no longer be loaded, or do not fit the
                cache. The worker sleeps on.
        """
        assert self._allocated is not None
        self._timer = StartupTimer(self._clock)
        if self._maker is None:
            self.load_model()
            self.link_stages(self._feature_layers)
        self._allocated.memory.restore()
        self.warm_up()
        for phase in self._timer.phases():
            _log.info("%s took %.2f s", phase.name, phase.seconds)

    def close(self) -> None:
        """Ends the threads of plugins and drops the model; valid in every phase."""
        self._close_upgrade()
        self._close_warmer()
        if self._allocated is not None:
            self._allocated.close()
        self._extensions.close()
        if self._governor is not None:
            self._governor.close()
        gc.unfreeze()
        self._runner = self._maker = self._allocated = None

    @property
    def _loaded(self) -> RunnerMaker:
        assert self._maker is not None, "load_model comes first"
        return self._maker

    def _build_runner(self, kept: Allocation) -> ModelShape:
        maker = self._loaded
        forward = maker.graphs.forward(kept.feed) or maker.model.forward
        self._runner = maker.runner(
            forward,
            kept.feed,
            kept.cache,
            kept.state,
            transferring=kept.transferring,
            serves=True,
        )
        model = maker.model
        return ModelShape(
            architecture=model.architecture,
            dtype=dtype_name(model.dtype),
            cache_dtype=dtype_name(model.cache_dtype),
            vocab_size=model.vocab_size,
            max_model_len=model.max_model_len,
            num_kv_blocks=kept.num_blocks,
            eos_token_ids=model.eos_token_ids,
            cost=model.cost,
            kernels=kernels_in_use(
                forward,
                kept.cache.attention.values(),
                maker.sampling,
                maker.machine,
                maker.graphs.reason_without,
                weights=model.quantization,
            ),
            isa=maker.machine.isa,
            kv_layout=self._runner.kv_layout,
            kv_cache_spec_kind=kept.cache.spec_kind,
            sliding_window=model.sliding_window,
        )

    def _build_with_kernels(self) -> tuple[RunnerMaker, Allocation]:
        """Builds what the next step may use; runs beside steps that do not."""
        assert self._machine is not None
        assert self._allocated is not None
        model = self._loaded.model
        assert model.with_kernels is not None
        model = replace(model, forward=model.with_kernels(), with_kernels=None)
        maker = RunnerMaker.of(
            self._config,
            self._machine,
            model,
            connector=None,
            extensions=self._extensions,
            ranks=self._ranks,
        )
        cache = self._allocated.cache.with_kernels()
        kept = replace(self._allocated, cache=cache, feed=maker.feed(cache))
        return maker, kept

    def _use_kernels(self, maker: RunnerMaker, kept: Allocation) -> None:
        """Computes the next steps with kernels, over the same keys and values."""
        gc.unfreeze()
        self._maker, self._allocated = maker, kept
        _log.info("kernels are in use: %s", self._build_runner(kept).kernels)
        self._governor = self._make_governor()
        self._close_upgrade()
        settle_heap()

    def _close_upgrade(self) -> None:
        if self._upgrade is not None:
            self._upgrade.close()
            self._upgrade = None

    def _make_governor(self) -> ThreadGovernor | None:
        """Returns None where no team of threads computes steps."""
        maker = self._loaded
        is_torch = self._config.executor.kernels is Kernels.TORCH
        if maker.machine.platform.is_gpu or is_torch or maker.model.with_kernels:
            return None
        try:
            team = import_compiled("hookline_kernels.cpu.team").thread_team()
        except KernelError:  # torch computes alone; a warning has said so
            return None
        fixed = is_chosen(self._config.executor.threads)
        engines = self._config.num_concurrent
        return ThreadGovernor(team, is_fixed=fixed, engines=engines)

    def _close_warmer(self) -> None:
        if self._warmer is not None:
            self._warmer.close()
            self._warmer = None
