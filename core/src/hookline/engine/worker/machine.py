"""The machine that a worker serves on, as the worker sees it."""

from typing import TYPE_CHECKING, Protocol

from hookline.engine.worker.executor import Compute
from hookline.engine.worker.loaded_model import LoadedModel
from hookline.engine.worker.runner_maker import DeviceSteps, RunnerMaker
from hookline_kernels import Platform

if TYPE_CHECKING:  # they are only read, or called
    from hookline.config.engine import EngineConfig
    from hookline.engine.worker.worker import Worker
    from hookline.startup_timer import StartupTimer


class Upgrade(Protocol):
    """Brings kernels to a worker that serves without them. Called by its thread."""

    def serve_meanwhile(self, worker: "Worker") -> Compute:
        """Begins to prepare them; returns what computes the steps until then.

        What it returns calls `worker.use` between two steps, once they are there.
        """

    def abandon(self) -> None:
        """Ends what has begun: the worker goes to sleep or ends. Valid at any time."""


class Machine(Protocol):
    """A device, and what runs beside the steps that a worker computes on it.

    All is called from the worker's thread.

    Attributes:
        platform: The device and the kind of kernels for it.
        isa: Instruction set of the CPU's kernels, such as `avx512`; empty with a GPU
            and on CPUs for which there are no kernels.
    """

    @property
    def platform(self) -> Platform: ...

    @property
    def isa(self) -> str: ...

    def device_steps(
        self,
        config: "EngineConfig",
        model: LoadedModel,
        most_drafts: int,
        obstacle: str,
    ) -> DeviceSteps:
        """Returns how steps of a model reach the device.

        Args:
            config: The engine's configuration.
            model: The loaded model.
            most_drafts: Maximum number of drafts of a request in a step.
            obstacle: Why an extension forbids graphs; empty if none does.
        """

    def count_blocks(self, maker: RunnerMaker, timer: "StartupTimer") -> int:
        """Returns how many KV blocks fit beside a loaded model.

        Raises:
            ConfigError: Not even one block fits.
        """

    def tune(self, worker: "Worker") -> Compute:
        """Begins to serve; returns what computes the worker's steps from now on."""

    def rest(self) -> None:
        """Ends what runs beside steps: the worker goes to sleep, or tunes again."""

    def return_memory(self) -> None:
        """Returns freed memory to the system."""

    def close(self) -> None:
        """Ends everything; valid at any time, and twice."""
