"""Configuration of the executor: its name, device and kernels."""

from dataclasses import dataclass, field
from enum import StrEnum

from hookline.config.option_fields import check_options
from hookline.config.options import option, section

AUTO = "auto"
"""The executor that suits the number of ranks."""


class Device(StrEnum):
    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"


class Kernels(StrEnum):
    AUTO = "auto"
    TORCH = "torch"


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationConfig:
    """Step-time model of the simulated executor: the sum of these costs, in seconds."""

    step_seconds: float = field(
        default=0.002,
        metadata=option(
            "Simulated fixed cost of a step.",
            flag="simulated-step-seconds",
            metavar="SECONDS",
            minimum=0,
        ),
    )
    prefill_token_seconds: float = field(
        default=0.00002,
        metadata=option(
            "Simulated cost per prompt token.",
            flag="simulated-prefill-token-seconds",
            metavar="SECONDS",
            minimum=0,
        ),
    )
    decode_request_seconds: float = field(
        default=0.0001,
        metadata=option(
            "Simulated cost per decoding request.",
            flag="simulated-decode-request-seconds",
            metavar="SECONDS",
            minimum=0,
        ),
    )
    context_token_seconds: float = field(
        default=0.0,
        metadata=option(
            "Simulated cost per token of context that attention reads.",
            flag="simulated-context-token-seconds",
            metavar="SECONDS",
            minimum=0,
        ),
    )
    draft_token_seconds: float = field(
        default=0.0,
        metadata=option(
            "Simulated cost per verified draft token.",
            flag="simulated-draft-token-seconds",
            metavar="SECONDS",
            minimum=0,
        ),
    )

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorConfig:
    """The executor, its device and its kernels.

    Attributes:
        shares_cores: Whether a front end in another process shares the CPU cores; set
            at the engine's start.
    """

    name: str = field(
        default=AUTO,
        metadata=option(
            "Installed executor that runs the model: uniproc in the engine's process, "
            "mp with a process for each rank, auto the former for one rank and the "
            "latter for several; ray with each rank as an actor on a Ray cluster; "
            "simulated runs none and sleeps instead.",
            flag="executor",
            metavar="NAME",
        ),
    )
    device: Device = field(
        default=Device.AUTO,
        metadata=option(
            "Device that runs the model; auto selects a GPU if torch finds one."
        ),
    )
    enforce_eager: bool = field(
        default=False,
        metadata=option("Do not use CUDA graphs. Ignored on CPUs."),
    )
    threads: int | None = field(
        default=None,
        metadata=option(
            "Number of threads that compute steps on CPUs.",
            metavar="COUNT",
            minimum=1,
            shown_default="as many as the cores, the CPU quota and other processes "
            "allow; 1 for small models behind a server",
        ),
    )
    shares_cores: bool = False
    kernels: Kernels = field(
        default=Kernels.AUTO,
        metadata=option(
            "Kernel implementation: auto selects the fastest that the machine "
            "supports; torch runs the reference, the modules of transformers with "
            "plain tensor operations."
        ),
    )
    serve_while_compiling: bool = field(
        default=True,
        metadata=option(
            "Serve with the torch reference while kernels that this machine has not "
            "compiled yet are compiled in the background; otherwise the engine is "
            "ready when they are. CPU only, with the engine in its own process, "
            "without speculative decoding and KV connectors."
        ),
    )
    simulation: SimulationConfig = field(
        default_factory=SimulationConfig, metadata=section("executor")
    )

    def __post_init__(self) -> None:
        check_options(self)
