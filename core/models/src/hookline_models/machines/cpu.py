"""Serves on CPUs: threads, and pages of main memory."""

from hookline.config.engine import EngineConfig
from hookline.engine.worker.executor import Compute
from hookline.engine.worker.loaded_model import LoadedModel
from hookline.engine.worker.runner_maker import Allocation, RunnerMaker
from hookline.engine.worker.worker import Worker
from hookline.startup_timer import StartupTimer
from hookline.stats.step_work import ThreadUse
from hookline.step import StepPlan, StepResult
from hookline_kernels import CPU, KernelError, import_compiled
from hookline_kernels.runtime.allocator import return_freed_memory
from hookline_kernels.runtime.gc_freeze import freeze_gc, unfreeze_gc
from hookline_kernels.runtime.kv_cache_prefaulter import KVCachePrefaulter
from hookline_kernels.runtime.threads.choosing import is_chosen
from hookline_kernels.runtime.threads.governor import ThreadGovernor
from hookline_models.machines.host_feed import HostSteps
from hookline_models.machines.memory import blocks_that_fit
from hookline_models.machines.profile import main_memory_room

_PREFAULT_TOKENS = 1 << 16
_MOST_PREFAULT = 1 << 30


class CpuMachine:
    """Implements `Machine`: the process's share of the CPUs and of main memory."""

    platform = CPU

    def __init__(self, isa: str = "") -> None:
        self.isa = isa
        self._prefaulter: KVCachePrefaulter | None = None
        self._governor: ThreadGovernor | None = None

    def device_steps(
        self,
        config: EngineConfig,
        model: LoadedModel,
        most_drafts: int,
        obstacle: str,
    ) -> HostSteps:
        """Implements `Machine`."""
        del config, model, most_drafts, obstacle
        return HostSteps()

    def count_blocks(self, maker: RunnerMaker, timer: StartupTimer) -> int:
        """Implements `Machine`."""
        return blocks_that_fit(maker, timer, main_memory_room)

    def tune(self, worker: Worker) -> Compute:
        """Faults in pages, and shares the cores with others."""
        if self._prefaulter is None:
            prefault = worker.config.cache.kv_cache_prefault
            self._prefaulter = _prefaulter(worker.allocated, prefault)
        self._governor = self._governor or _governor(worker)
        freeze_gc()
        if self._governor is None:
            return worker.compute
        return governed(self._governor, worker.compute)

    def rest(self) -> None:
        """Implements `Machine`."""
        if self._prefaulter is not None:
            self._prefaulter.close()
            self._prefaulter = None
        unfreeze_gc()

    def return_memory(self) -> None:
        """Implements `Machine`."""
        return_freed_memory()

    def close(self) -> None:
        """Implements `Machine`."""
        self.rest()
        if self._governor is not None:
            self._governor.close()


def governed(governor: ThreadGovernor, compute: Compute) -> Compute:
    """Returns what computes steps with as many threads as there are cores for."""

    def computed(plan: StepPlan) -> StepResult:
        governor.begin_step()
        result = compute(plan)
        return result.with_execution(thread_use=ThreadUse(*governor.end_step()))

    return computed


def _governor(worker: Worker) -> ThreadGovernor | None:
    """Returns None where no team of threads computes steps."""
    config = worker.config
    if not worker.maker.may_compile:
        return None
    try:
        team = import_compiled("hookline_kernels.cpu.team").thread_team()
    except KernelError:  # torch computes alone; a warning has said so
        return None
    fixed = is_chosen(config.executor.threads)
    return ThreadGovernor(team, is_fixed=fixed, engines=config.num_concurrent)


def _prefaulter(kept: Allocation, prefault: int | None) -> KVCachePrefaulter | None:
    """Starts to fault in the first pages of the KV cache.

    Args:
        kept: The memory.
        prefault: Bytes to fault in; None chooses: a small model must not hold a GiB
            that it may never use.
    """
    memory = [side for sides in kept.cache.sides() for side in sides]
    if prefault is None:
        tokens = kept.num_blocks * kept.cache.keys[0].shape[1]
        token_bytes = sum(each.nbytes for each in memory) // tokens
        prefault = min(_PREFAULT_TOKENS * token_bytes, _MOST_PREFAULT)
    return KVCachePrefaulter(memory, prefault) if prefault else None
