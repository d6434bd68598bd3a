"""Configuration of the executor: its name, device and kernels."""

from dataclasses import dataclass
from enum import StrEnum

from hookline.config.options import check_options, option

AUTO = "auto"
"""The executor that suits the number of ranks."""


class Device(StrEnum):
    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"


class Kernels(StrEnum):
    AUTO = "auto"
    TORCH = "torch"


class OnNonFinite(StrEnum):
    """What becomes of a request whose logits are not finite."""

    ERROR = "error"
    ALLOW = "allow"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorConfig:
    """The executor, its device and its kernels.

    Attributes:
        shares_cores: Whether a front end in another process shares the CPU cores; set
            at the engine's start.
    """

    name: str = option(
        "Installed executor that runs the model: uniproc in the engine's process, "
        "mp with a process for each rank, auto the former for one rank and the "
        "latter for several; ray with each rank as an actor on a Ray cluster; "
        "simulated runs none and sleeps instead.",
        default=AUTO,
        flag="executor",
        metavar="NAME",
    )
    device: Device = option(
        "Device that runs the model; auto selects a GPU if torch finds one.",
        default=Device.AUTO,
    )
    enforce_eager: bool = option(
        "Do not use CUDA graphs. Ignored on CPUs.", default=False
    )
    threads: int | None = option(
        "Number of threads that compute steps on CPUs.",
        default=None,
        metavar="COUNT",
        minimum=1,
        shown_default="as many as the cores, the CPU quota and other processes "
        "allow; 1 for small models behind a server",
    )
    shares_cores: bool = False
    kernels: Kernels = option(
        "Kernel implementation: auto selects the fastest that the machine "
        "supports; torch runs the reference, the modules of transformers with "
        "plain tensor operations.",
        default=Kernels.AUTO,
    )
    on_non_finite: OnNonFinite = option(
        "What becomes of a request whose logits are not finite (a NaN, +∞, or nothing "
        "above −∞): error ends it; allow samples the finite ones, or token 0.",
        default=OnNonFinite.ERROR,
    )

    @property
    def may_compile(self) -> bool:
        """Whether kernels are used, and not torch alone."""
        return self.kernels is not Kernels.TORCH

    def __post_init__(self) -> None:
        check_options(self)
