"""Puts an engine core of vLLM to sleep and wakes it up, possibly over several steps."""

from typing import Any

from hookline.engine.commands import Call, Reply, Sleep, SleepMode, SleepState
from hookline.step import SleepLevel
from hookline_vllm_engine.binding import Binding

_WEIGHTS, _KV_CACHE = ["weights"], ["kv_cache"]


class SleepControl:
    """Carries out `Sleep` and `WakeUp`.

    Attributes:
        level: What is released; None while it is awake.
    """

    def __init__(self, core: Any, vllm: Binding) -> None:
        self._core, self._vllm = core, vllm
        self._pending: tuple[Call, SleepLevel] | None = None
        self.level: SleepLevel | None = None

    @property
    def state(self) -> SleepState:
        """What `IsSleeping` is answered."""
        return SleepState(self.level)

    def start_sleeping(self, call: Call, command: Sleep) -> Reply | None:
        """Stops admission, and with `keep` all steps.

        Returns:
            The reply, if it need not or must not go to sleep; else `advance` returns it
            later.
        """
        if (obstacle := self._obstacle(command)) is not None:
            return Reply(call.client, call.number, error=obstacle)
        if self.level is not None:
            return Reply(call.client, call.number, self.state)
        states = self._vllm.PauseState
        is_kept = command.mode is SleepMode.KEEP
        paused = states.PAUSED_ALL if is_kept else states.PAUSED_NEW
        self._core.scheduler.set_pause_state(paused)
        self._pending = (call, command.level)
        return None

    def advance(self) -> Reply | None:
        """Returns the reply to a `Sleep` that nothing runs against any more."""
        core = self._core
        if self._pending is None or core.batch_queue or core.scheduler.has_requests():
            return None
        (call, level), self._pending = self._pending, None
        try:
            core.sleep(int(level), "keep")  # what still runs is preempted
        except RuntimeError as error:  # blocks that nothing takes back
            core.resume_scheduler()
            return Reply(call.client, call.number, error=f"vLLM: {error}")
        self.level = level
        return Reply(call.client, call.number, self.state)

    def wake_up(self) -> Reply | None:
        """Wakes it up; returns the reply to a `Sleep` that is cancelled so."""
        core, level = self._core, self.level
        if level is SleepLevel.WEIGHTS:  # which vLLM does not keep anywhere
            core.wake_up(_WEIGHTS)
            core.collective_rpc("reload_weights")
            core.wake_up(_KV_CACHE)
        elif level is not None:
            core.wake_up()
        self.level = None
        if self._pending is None:
            return None
        (call, _), self._pending = self._pending, None
        core.resume_scheduler()
        return Reply(call.client, call.number, error="cancelled by a wake-up")

    def _obstacle(self, command: Sleep) -> str | None:
        if self._pending is not None:
            return "the engine is going to sleep already"
        if self.level is not None and command.level > self.level:
            return "vLLM has no deeper sleep for a sleeping engine: wake it up first"
        is_possible = self._vllm.current_platform.is_sleep_mode_available()
        if is_possible and not self._core.vllm_config.model_config.enable_sleep_mode:
            return "start the server with --enable-sleep-mode after `--`"
        return None
