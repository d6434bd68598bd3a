"""What a server's engines do while their number changes."""

from dataclasses import dataclass
from typing import Protocol

from hookline.exceptions import HooklineError

MOST_ENGINES = 64
"""Each is a process with the whole model."""


@dataclass(frozen=True, slots=True)
class ScalingState:
    """The engines by what they do; each by its index, in ascending order.

    Attributes:
        serving: Those that get requests, or will once their process is replaced.
        starting: Those that load their model.
        leaving: Those that finish their requests and end.
    """

    serving: tuple[int, ...]
    starting: tuple[int, ...] = ()
    leaving: tuple[int, ...] = ()

    @property
    def staying(self) -> int:
        """Number of engines once all that was begun is done."""
        return len(self.serving) + len(self.starting)

    @property
    def is_settled(self) -> bool:
        """Whether nothing starts and nothing leaves."""
        return not self.starting and not self.leaving


@dataclass(frozen=True, slots=True)
class ScalingReport:
    """The engines of a server, and what is to become of their number.

    Attributes:
        state: The engines by what they do.
        wanted: Number of engines that was chosen last.
        is_changing: Whether the number is being changed, or engines come or go.
    """

    state: ScalingState
    wanted: int
    is_changing: bool


class ScalingBusyError(HooklineError):
    """The number of engines cannot be changed now; try again later."""


class StartFailedError(HooklineError):
    """An engine that was to join others cannot be started; the others go on.

    Attributes:
        reason: Why.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"an engine cannot be started: {reason}")
        self.reason = reason


class DrainTimeoutError(HooklineError):
    """Requests of engines that were to leave have not ended in time.

    Attributes:
        engines: Indices of the engines, which stay.
        timeout_seconds: How long they had.
    """

    def __init__(self, engines: tuple[int, ...], timeout_seconds: float) -> None:
        names = ", ".join(map(str, engines))
        super().__init__(
            f"requests have not ended within {timeout_seconds:g} s, so that these "
            f"engines stay: {names}"
        )
        self.engines = engines
        self.timeout_seconds = timeout_seconds


class EngineNumber(Protocol):
    """The capability to change the number of engines, of this or another process."""

    async def report(self) -> ScalingReport:
        """Returns the engines, and whether their number is being changed."""
        ...

    async def scale(self, number: int, *, drain_seconds: float) -> ScalingState:
        """Brings the engines to a number, and waits until they have come or gone.

        Raises:
            RequestError: It is not a possible number.
            ConfigError: The number is fixed, by the option that the error names.
            ScalingBusyError: It cannot be changed now.
            StartFailedError: An engine cannot be started.
            DrainTimeoutError: Requests of engines that leave have not ended in time.
            EngineDeadError: The server is being stopped, or all engines have ended.
        """
        ...
