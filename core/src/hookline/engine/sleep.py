"""Puts an engine core to sleep and wakes it up, possibly over several steps."""

from typing import TYPE_CHECKING

from hookline.engine.commands import Call, Reply, Sleep, SleepState
from hookline.step import SleepLevel

if TYPE_CHECKING:  # they are only called
    from hookline.engine.engine_core import EngineCore


class SleepControl:
    """Carries out `Sleep` and `WakeUp` for an engine loop.

    Attributes:
        is_changing: Whether `advance` has to be called.
    """

    def __init__(self, core: "EngineCore") -> None:
        """Controls a core, whose executor other engines may need."""
        self._core, self._company = core, core.sharing
        self._pending: tuple[Call, SleepLevel] | None = None
        self._is_resuming = False
        self.is_changing = False

    @property
    def is_asleep(self) -> bool:
        return self._core.sleep_level is not None

    @property
    def state(self) -> SleepState:
        return SleepState(self._core.sleep_level)

    def start_sleeping(self, call: Call, command: Sleep) -> Reply | None:
        """Starts going to sleep.

        Returns:
            The reply, if the engine need not or must not go to sleep; otherwise
            `advance` returns it later.
        """
        if (obstacle := self._obstacle()) is not None:
            return Reply(call.client, call.number, error=obstacle)
        level = self._core.sleep_level
        if level is not None and level >= command.level:
            return Reply(call.client, call.number, self.state)
        self._core.hold(command.mode)
        self._pending = (call, command.level)
        self._is_resuming = False
        self.is_changing = True
        return None

    def advance(self) -> Reply | None:
        """Goes on where `start_sleeping` or a cancelling `wake_up` left off.

        Returns:
            The reply to `Sleep`, when the engine has just gone to sleep.
        """
        if self._core.has_steps_in_flight:
            return None
        if self._is_resuming:
            self._is_resuming = self.is_changing = False
            self._core.resume()
            self._rise()
        if self._pending is None or self._core.has_running:
            return None
        if self._company is not None and not self._company.rest():
            return None
        (call, level), self._pending = self._pending, None
        self.is_changing = False
        self._core.sleep(level)
        return Reply(call.client, call.number, self.state)

    def wake_up(self) -> Reply | None:
        """Wakes up; returns the reply to a `Sleep` that it cancels."""
        if self.is_asleep:
            self._core.wake_up()
            self._rise()
        if self._pending is None:
            return None
        (call, _), self._pending = self._pending, None
        self._is_resuming = self.is_changing = True
        return Reply(call.client, call.number, error="cancelled by a wake-up")

    def _rise(self) -> None:
        if self._company is not None:
            self._company.rise()

    def _obstacle(self) -> str | None:
        if self._pending is not None:
            return "the engine is going to sleep already"
        return self._core.sleep_obstacle
