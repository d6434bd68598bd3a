"""One engine's statistics since its last line."""

from dataclasses import dataclass, field

from hookline.clock import NANOSECONDS
from hookline.stats.iteration_stats import IterationStats
from hookline.stats.scheduler_stats import SchedulerStats
from hookline_logging.preemption_lines import PreemptionLines
from hookline_metrics.hit_rate import HitRateWindow


@dataclass(slots=True)
class EngineWindow:
    """An engine's statistics between two lines.

    An idle engine has no open window: the next one begins with the first activity, so
    rates do not include the pause.

    Attributes:
        began_at: Nanoseconds at which the window opened; None while the engine is idle.
        prompt_tokens: Prompt tokens in this window.
        generation_tokens: Generated tokens in this window.
        state: Latest state of the scheduler.
        preemptions: Number of preemptions in this window.
        hit_rate: Prefix cache hit rate of recent requests, across windows.
        preemption_lines: Lines about single preemptions, across windows.
    """

    began_at: int | None = None
    prompt_tokens: int = 0
    generation_tokens: int = 0
    preemptions: int = 0
    state: SchedulerStats = field(default_factory=SchedulerStats)
    hit_rate: HitRateWindow = field(default_factory=HitRateWindow)
    preemption_lines: PreemptionLines = field(default_factory=PreemptionLines)

    def add(self, now: int, iteration: IterationStats, state: SchedulerStats) -> None:
        """Adds a step, or a change of state outside a step."""
        self.state = state
        self.hit_rate.observe(state.totals.prefix_cache)
        self.prompt_tokens += iteration.prompt_tokens
        self.generation_tokens += iteration.generation_tokens
        self.preemptions += iteration.preemptions
        happened = iteration.generation_tokens or iteration.finished
        if self.began_at is None and (happened or self.is_busy):
            self.began_at = now

    @property
    def waiting(self) -> int:
        """Number of waiting requests, for any reason."""
        state = self.state
        return state.waiting + sum(state.held.values())

    @property
    def is_busy(self) -> bool:
        return self.state.running > 0 or self.waiting > 0

    def is_due(self, now: int, interval_seconds: float) -> bool:
        """Whether a window has been open for the interval."""
        return (
            self.began_at is not None
            and now - self.began_at >= interval_seconds * NANOSECONDS
        )

    def line(self, now: int) -> dict[str, int | float]:
        """Returns the line's fields; rates are over the open window."""
        began_at = now if self.began_at is None else self.began_at
        seconds = (now - began_at) / NANOSECONDS
        numbers: dict[str, int | float] = {
            "running": self.state.running,
            "waiting": self.waiting,
        }
        if self.state.kv_blocks:  # else it tells nothing of its cache
            numbers["kv_cache_usage"] = round(self.state.kv_usage, 4)
        numbers |= {
            "prompt_tokens_per_second": _rate(self.prompt_tokens, seconds),
            "generation_tokens_per_second": _rate(self.generation_tokens, seconds),
        }
        if self.preemptions:
            numbers["preemptions"] = self.preemptions
        if (rate := self.hit_rate.rate) is not None:
            numbers["prefix_cache_hit_rate"] = round(rate, 4)
        return numbers

    def restart(self, now: int) -> None:
        """Opens the next window, or none if the engine is idle."""
        self.began_at = now if self.is_busy else None
        self.prompt_tokens = 0
        self.generation_tokens = 0
        self.preemptions = 0


def _rate(tokens: int, seconds: float) -> float:
    return round(tokens / seconds, 1) if seconds > 0 else 0.0
