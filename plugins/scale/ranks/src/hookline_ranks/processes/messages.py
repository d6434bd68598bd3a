"""Messages between an executor and its ranks, in msgpack.

Every rank gets every order, and answers every order but `Execute`, which only the
output rank and those with sections of extensions answer, and `End`.
"""

from enum import StrEnum

import msgspec

from hookline.config import EngineConfig
from hookline.startup_timer import StartupPhase
from hookline.stats.step_work import RankUse
from hookline.step import ModelShape, SleepLevel, StepPlan, StepResult


class Setup(msgspec.Struct, frozen=True, tag=True):
    """The first order: load the plugins and torch, and choose the device.

    Attributes:
        config: The engine's configuration; a rank knows which one it is.
    """

    config: EngineConfig


class LoadModel(msgspec.Struct, frozen=True, tag=True):
    """Read the weights; the answer is `Loaded`."""


class LinkStages(msgspec.Struct, frozen=True, tag=True):
    """Get ready to exchange hidden states with other stages.

    Attributes:
        feature_layers: Layers whose inputs the output rank needs.
    """

    feature_layers: tuple[int, ...]


class Profile(msgspec.Struct, frozen=True, tag=True):
    """Measure memory; the answer is `Room`."""


class Allocate(msgspec.Struct, frozen=True, tag=True):
    """Allocate a KV cache of the number of blocks that all ranks have room for."""

    num_blocks: int


class WarmUp(msgspec.Struct, frozen=True, tag=True):
    """Get ready for steps; the answer is `Warm`."""


class Execute(msgspec.Struct, frozen=True, tag=True):
    """Compute a step; the output rank answers `Computed`, others with sections do."""

    plan: StepPlan


class Assist(msgspec.Struct, frozen=True, tag=True):
    """Compute the rank's experts in a step of other engines; `Assisted` answers."""


class Sleep(msgspec.Struct, frozen=True, tag=True):
    """Release memory."""

    level: SleepLevel


class WakeUp(msgspec.Struct, frozen=True, tag=True):
    """Restore what was released."""


class End(msgspec.Struct, frozen=True, tag=True):
    """Release everything and end."""


Task = (
    Setup
    | LoadModel
    | LinkStages
    | Profile
    | Allocate
    | WarmUp
    | Execute
    | Assist
    | Sleep
    | WakeUp
)
Order = Task | End


class Done(msgspec.Struct, frozen=True, tag=True):
    """An order has been carried out."""


class Loaded(msgspec.Struct, frozen=True, tag=True):
    """The weights have been read.

    Attributes:
        feature_layers: Layers whose inputs the rank's proposer needs; empty where there
            is none.
    """

    feature_layers: tuple[int, ...]


class Room(msgspec.Struct, frozen=True, tag=True):
    """How many KV blocks the rank has room for."""

    num_blocks: int


class Warm(msgspec.Struct, frozen=True, tag=True):
    """Steps can begin.

    Attributes:
        shape: The model's, with the number of blocks in the rank's cache.
        phases: How long each phase of the rank's start took.
    """

    shape: ModelShape
    phases: tuple[StartupPhase, ...]


class Computed(msgspec.Struct, frozen=True, tag=True):
    """A step's result.

    Attributes:
        result: The whole result of the output rank; the sections of others.
        executed_ns: Time from the plan's arrival to the result, ns.
    """

    result: StepResult
    executed_ns: int


class Assisted(msgspec.Struct, frozen=True, tag=True):
    """A step of other engines has been computed.

    Attributes:
        use: What the rank saw of it.
    """

    use: RankUse


class Refusal(StrEnum):
    """Kinds of errors that are the user's to mend, and any other."""

    CONFIG = "config"
    MODEL = "model"
    OTHER = "other"


class Refused(msgspec.Struct, frozen=True, tag=True):
    """An order could not be carried out.

    Attributes:
        kind: The kind of the error.
        subject: The option or the model; empty for other errors.
        detail: What is wrong.
    """

    kind: Refusal
    subject: str
    detail: str


Answer = Done | Loaded | Room | Warm | Computed | Assisted | Refused
