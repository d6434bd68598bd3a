"""What computes the tokens, and on which device."""

from dataclasses import dataclass, field
from enum import StrEnum

from hookline.config.checks import check_positive
from hookline.exceptions import ConfigError


class ExecutorKind(StrEnum):
    UNIPROC = "uniproc"
    SIMULATED = "simulated"


class Device(StrEnum):
    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"


class Kernels(StrEnum):
    AUTO = "auto"
    TORCH = "torch"


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationConfig:
    """The step-time model of the simulated executor: seconds a step is the sum.

    Attributes:
        step_seconds: Fixed cost of a step.
        prefill_token_seconds: For each prompt token computed.
        decode_request_seconds: For each decoding request.
        context_token_seconds: For each token of context that attention reads.
        draft_token_seconds: For each draft token that is verified.
    """

    step_seconds: float = 0.002
    prefill_token_seconds: float = 0.00002
    decode_request_seconds: float = 0.0001
    context_token_seconds: float = 0.0
    draft_token_seconds: float = 0.0

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if getattr(self, name) < 0:
                raise ConfigError(f"simulated.{name}", "must not be negative")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorConfig:
    """What computes the tokens.

    Attributes:
        kind: `uniproc` runs the model here; `simulated` runs none.
        device: Where the model runs; `auto` takes a GPU if torch finds one.
        enforce_eager: On a GPU, launch each step rather than replay graphs of decodes;
            other devices have none.
        threads: Intra-op threads of torch on processors; None is one for small models
            beside a front end, else torch's choice.
        shares_cores: Whether a front end in another process wants the processors, too;
            whoever starts the engine says so.
        kernels: `auto` takes the quickest ones that the machine has; `torch` runs the
            modules of `transformers` and plain tensor operations, which all others
            are checked against.
        simulation: Step times of the simulated executor.
    """

    kind: ExecutorKind = ExecutorKind.UNIPROC
    device: Device = Device.AUTO
    enforce_eager: bool = False
    threads: int | None = None
    shares_cores: bool = False
    kernels: Kernels = Kernels.AUTO
    simulation: SimulationConfig = field(default_factory=SimulationConfig)

    def __post_init__(self) -> None:
        check_positive("threads", self.threads)
