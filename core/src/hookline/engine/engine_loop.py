"""Drives an engine core: takes commands, steps while there is work, waits otherwise."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from hookline.clock import NANOSECONDS
from hookline.engine.commands import (
    Add,
    Call,
    Command,
    EngineMessage,
    Finish,
    IsSleeping,
    Reply,
    ResetPrefixCache,
    Sleep,
    TellExtensions,
    WakeUp,
)
from hookline.engine.engine_core import WAIT, EngineCore
from hookline.engine.sleep import SleepControl

if TYPE_CHECKING:  # it is only called
    from hookline.engine.tap import Tap

Receive = Callable[[float], Command | None]
"""Waits up to this many seconds for a command; 0 only polls."""

SHORTEST_PAUSE, LONGEST_PAUSE = 0.0005, 0.05
"""Seconds between two polls of extensions while nothing is computed."""
CHECK_SECONDS = 0.25
"""Seconds after which an idle loop looks whether its ranks still live."""


class EngineLoop:
    """The loop around a core, the same in every process.

    Attributes:
        core: The engine core.
        facts: Its facts.
        bell: Descriptor that is readable if others need it; None for none.
    """

    def __init__(
        self, core: EngineCore, heartbeat_seconds: float, tap: "Tap | None" = None
    ) -> None:
        self.core, self._tap = core, tap
        self.facts, self.clock_pair = core.facts, core.clock_pair
        self.bell = None if core.sharing is None else core.sharing.bell
        if tap is not None:
            core.watch(tap)
        self._sleep = SleepControl(core)
        self._heartbeat = round(heartbeat_seconds * NANOSECONDS)
        self._last_state = core.clock.now()
        self._changed = self._due = ""
        self._has_stepped = False
        self._pause = SHORTEST_PAUSE
        self._replies_to_state: list[Reply] = []
        self._replies: list[Reply] = []

    @property
    def has_work(self) -> bool:
        return self.core.has_work

    def run_once(self, receive: Receive, timeout_seconds: float) -> list[EngineMessage]:
        """Takes all waiting commands, then steps, publishes a state, or waits.

        Returns:
            At most one output, then replies. A reply to a command that changes the
            state follows the output with that state.
        """
        try:
            self.core.check()
            while (command := receive(0)) is not None:
                self._take(command)
            if self._sleep.is_changing and (reply := self._sleep.advance()) is not None:
                self._reply_with_state("sleep", reply)
            messages = self._run(receive, 0.0 if self._replies else timeout_seconds)
            if self._replies:
                messages, self._replies = [*messages, *self._replies], []
            if self._tap is not None:
                for each in messages:
                    self._tap.output(self.core.clock.now(), each)
        except BaseException as error:
            self._close_tap(error)
            raise
        return messages

    def close(self) -> None:
        """Closes the core and its tap."""
        self._close_tap(None)
        self.core.close()

    def _close_tap(self, error: BaseException | None) -> None:
        if self._tap is not None:
            self._tap.close(error)
        self._tap = None

    def _run(self, receive: Receive, timeout_seconds: float) -> list[EngineMessage]:
        is_busy = self.core.has_work and self.core.sleep_level is None
        # A step lies between two states, however many commands ask for one.
        if self._due and (self._has_stepped or not is_busy):
            return self._state(self._due)
        if self._seconds_to_heartbeat() <= 0:
            return self._state(self._due or "heartbeat")
        if is_busy:
            return self._step(receive, timeout_seconds)
        if self._changed:
            return self._state(self._changed)
        sharing = self.core.sharing
        if sharing is None or not sharing.assist_others():
            self._wait(receive, timeout_seconds)
        return []

    def _step(self, receive: Receive, timeout_seconds: float) -> list[EngineMessage]:
        self._changed, self._has_stepped = "idle", True
        output = self.core.step()
        if output.cause != WAIT:
            self._pause = SHORTEST_PAUSE
            return [output]
        self._wait(receive, min(timeout_seconds, self._next_pause()))
        return []

    def _wait(self, receive: Receive, timeout_seconds: float) -> None:
        longest = CHECK_SECONDS if self.core.has_ranks else timeout_seconds
        wait = min(timeout_seconds, longest, self._seconds_to_heartbeat())
        if (command := receive(max(wait, 0))) is not None:
            self._take(command)

    def _next_pause(self) -> float:
        """Bounds the delay until news of an extension is seen to 1/8 of the wait."""
        pause, self._pause = self._pause, min(1.125 * self._pause, LONGEST_PAUSE)
        return pause

    def _seconds_to_heartbeat(self) -> float:
        due = self._last_state + self._heartbeat
        return (due - self.core.clock.now()) / NANOSECONDS

    def _state(self, cause: str) -> list[EngineMessage]:
        self._last_state = self.core.clock.now()
        self._changed, self._due, self._has_stepped = "", "", False
        replies, self._replies_to_state = self._replies_to_state, []
        self.core.expire()  # an engine that sleeps plans no steps
        return [self.core.report(cause), *replies]

    def _take(self, command: Command) -> None:
        if self._tap is not None:
            self._tap.command(self.core.clock.now(), command)
        if isinstance(command, Add):
            self.core.add(command.request)
            for request in command.siblings() if command.sibling_ids else ():
                self.core.add(request)
        elif isinstance(command, Finish):
            self.core.finish(command.request_ids, command.cause)
            self._changed = "abort"
        else:
            self._call(command)

    def _call(self, call: Call) -> None:
        match call.command:
            case TellExtensions() as command:
                cause = "reset" if isinstance(command, ResetPrefixCache) else "transfer"
                told = self.core.tell(command)
                self._reply_with_state(cause, Reply(call.client, call.number, told))
            case Sleep() as command:
                if (refusal := self._sleep.start_sleeping(call, command)) is not None:
                    self._replies.append(refusal)
            case WakeUp():
                self._wake_up(call)
            case IsSleeping():
                state = self._sleep.state
                self._replies.append(Reply(call.client, call.number, state))

    def _wake_up(self, call: Call) -> None:
        was_asleep = self._sleep.is_asleep
        if (cancelled := self._sleep.wake_up()) is not None:
            self._replies.append(cancelled)
        reply = Reply(call.client, call.number, self._sleep.state)
        if was_asleep:
            self._reply_with_state("wake_up", reply)
        else:
            self._replies.append(reply)

    def _reply_with_state(self, cause: str, reply: Reply) -> None:
        self._due = cause
        self._replies_to_state.append(reply)
