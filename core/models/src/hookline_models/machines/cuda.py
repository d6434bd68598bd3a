"""Serves on one GPU: graphs, and the device's memory."""

from collections.abc import Callable
from functools import partial

import torch

from hookline.config.engine import EngineConfig
from hookline.engine.worker.executor import Compute
from hookline.engine.worker.loaded_model import LoadedModel
from hookline.engine.worker.runner_maker import RunnerMaker
from hookline.engine.worker.worker import Worker
from hookline.startup_timer import StartupTimer
from hookline_kernels import Platform
from hookline_kernels.gpu.graph_capture import Capture
from hookline_kernels.runtime.allocator import return_freed_memory
from hookline_kernels.runtime.gc_freeze import freeze_gc, unfreeze_gc
from hookline_models.machines.graph_plan import GraphPlan
from hookline_models.machines.memory import blocks_that_fit
from hookline_models.machines.profile import device_room


class CudaMachine:
    """Implements `Machine`.

    Attributes:
        platform: The device.
        new_capture: Creates a capturer of graphs; None launches each step.
        sharers: Number of engines that divide the device's memory.
    """

    isa = ""

    def __init__(
        self,
        platform: Platform,
        new_capture: Callable[[], Capture] | None,
        sharers: int = 1,
    ) -> None:
        self.platform, self.new_capture = platform, new_capture
        self.sharers = sharers

    def device_steps(
        self,
        config: EngineConfig,
        model: LoadedModel,
        most_drafts: int,
        obstacle: str,
    ) -> GraphPlan:
        """Implements `Machine`."""
        return GraphPlan(
            config=config,
            device=self.platform.device,
            new_capture=self.new_capture,
            model=model,
            most_drafts=most_drafts,
            obstacle=obstacle,
        )

    def count_blocks(self, maker: RunnerMaker, timer: StartupTimer) -> int:
        """Implements `Machine`."""
        return blocks_that_fit(maker, timer, partial(device_room, sharers=self.sharers))

    def tune(self, worker: Worker) -> Compute:
        """Implements `Machine`."""
        freeze_gc()
        return worker.compute

    def rest(self) -> None:
        """Implements `Machine`."""
        unfreeze_gc()

    def return_memory(self) -> None:
        """Implements `Machine`."""
        return_freed_memory()
        if torch.cuda.is_initialized():
            torch.cuda.empty_cache()

    def close(self) -> None:
        """Implements `Machine`."""
        self.rest()
