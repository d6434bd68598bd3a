"""What one engine did since its last line, and whether there is a line to write."""

from dataclasses import dataclass, field

from hookline.clock import NANOSECONDS
from hookline.stats import HitRateWindow, IterationStats, SchedulerStats


@dataclass(slots=True)
class EngineWindow:
    """An engine's numbers between two lines.

    An engine that is quiet opens no window: the next one begins with what ends the
    quiet, so that its rates do not count the pause.

    Attributes:
        began_at: When the open window began; None while the engine is quiet.
        prompt_tokens: In this window.
        generation_tokens: In this window.
        state: The newest.
        hit_rate: Over the most recent requests, whatever the window.
    """

    began_at: int | None = None
    prompt_tokens: int = 0
    generation_tokens: int = 0
    state: SchedulerStats = field(default_factory=SchedulerStats)
    hit_rate: HitRateWindow = field(default_factory=HitRateWindow)

    def add(self, now: int, iteration: IterationStats, state: SchedulerStats) -> None:
        """Takes in a step, or a change of state outside one."""
        self.state = state
        self.hit_rate.observe(state.prefix_cache)
        self.prompt_tokens += iteration.prompt_tokens
        self.generation_tokens += iteration.generation_tokens
        happened = iteration.generation_tokens or iteration.finished
        if self.began_at is None and (happened or self.is_busy):
            self.began_at = now

    @property
    def waiting(self) -> int:
        """Requests that wait for anything."""
        state = self.state
        return state.waiting + state.waiting_for_grammar + state.waiting_for_remote_kv

    @property
    def is_busy(self) -> bool:
        return self.state.running > 0 or self.waiting > 0

    def is_due(self, now: int, interval_seconds: float) -> bool:
        """Whether a window is open and has lasted long enough."""
        return (
            self.began_at is not None
            and now - self.began_at >= interval_seconds * NANOSECONDS
        )

    def line(self, now: int) -> dict[str, int | float]:
        """The line's numbers; rates are over the open window."""
        began_at = now if self.began_at is None else self.began_at
        seconds = (now - began_at) / NANOSECONDS
        numbers: dict[str, int | float] = {
            "running": self.state.running,
            "waiting": self.waiting,
            "kv_cache_usage": round(self.state.kv_usage, 4),
            "prompt_tokens_per_second": _rate(self.prompt_tokens, seconds),
            "generation_tokens_per_second": _rate(self.generation_tokens, seconds),
        }
        if (rate := self.hit_rate.rate) is not None:
            numbers["prefix_cache_hit_rate"] = round(rate, 4)
        return numbers

    def restart(self, now: int) -> None:
        """Opens the next window, or none if the line told that all is quiet."""
        self.began_at = now if self.is_busy else None
        self.prompt_tokens = 0
        self.generation_tokens = 0


def _rate(tokens: int, seconds: float) -> float:
    return round(tokens / seconds, 1) if seconds > 0 else 0.0
