"""Engine cores that a test drives step by step."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from hookline.config.extensions import KV_TRANSFER
from hookline.engine.engine_core import WAIT, EngineCore
from hookline.events import Finished
from hookline.finish_cause import Aborted
from hookline.request import GenerateRequest
from hookline.sampling_params import SamplingParams
from hookline.stats.scheduler_stats import Residue, SchedulerStats
from hookline_metrics.transfer_stats import transfers_of
from hookline_testing.own_time import Deadline, Stopwatch, Took


class Timing(Protocol):
    """Measures the time that passes for engines."""

    def took(self) -> Took:
        """Returns the time so far."""
        ...


class Pace(Protocol):
    """How time passes for engines."""

    def stopwatch(self) -> Timing:
        """Measures from now on."""
        ...

    def wait(self) -> None:
        """Lets a moment pass, in which no engine has anything to do."""
        ...


class SystemPace:
    """As the system's clock goes."""

    def stopwatch(self) -> Stopwatch:
        """Implements `Pace`."""
        return Stopwatch()

    def wait(self) -> None:
        """Implements `Pace`."""
        time.sleep(0.002)


@dataclass
class DrivenEngine:
    """An engine core, and its output so far.

    Attributes:
        core: The engine core.
        pace: How time passes for it, and for the engines driven with it.
        tokens: Output tokens by request id.
        ended: How each finished request ended.
    """

    core: EngineCore
    pace: Pace = field(default_factory=SystemPace)
    tokens: dict[int, list[int]] = field(default_factory=dict)
    ended: dict[int, Finished] = field(default_factory=dict)
    _last_id: int = 0

    def add(
        self,
        prompt: Sequence[int],
        max_tokens: int,
        params: Mapping[str, object] | None = None,
    ) -> int:
        self._last_id += 1
        self.tokens[self._last_id] = []
        self.core.add(
            GenerateRequest(
                request_id=self._last_id,
                prompt_token_ids=list(prompt),
                params=SamplingParams(max_tokens=max_tokens, temperature=0.0),
                sections={} if params is None else {KV_TRANSFER: dict(params)},
            )
        )
        return self._last_id

    def abort(self, request_id: int) -> None:
        self.core.finish([request_id], Aborted("gone"))

    def turn(self) -> bool:
        """Runs a step if there is work; returns whether it made progress."""
        if not self.core.has_work:
            return False
        output = self.core.step()
        if output.cause == WAIT:  # dropped, as the engine loop does
            return False
        for event in output.events.new_tokens:
            self.tokens[event.request_id].extend(event.token_ids)
        for end in output.events.finished:
            self.ended[end.request_id] = end
        return True

    @property
    def stats(self) -> SchedulerStats:
        return self.core.report("test").stats


def turn_until(
    engines: Sequence[DrivenEngine], is_so: Callable[[], bool], seconds: float = 20.0
) -> Took:
    """Drives engines until a condition holds; returns the time it took them.

    `seconds`: when to give up, by the system's clock.
    """
    pace, deadline = engines[0].pace, Deadline(seconds)
    stopwatch = pace.stopwatch()
    while not is_so():
        have_worked = [each.turn() for each in engines]
        if not any(have_worked):
            pace.wait()
        assert deadline.is_ahead, [each.stats for each in engines]
    return stopwatch.took()


def turn_for(engines: Sequence[DrivenEngine], seconds: float) -> None:
    """Drives engines for a while."""
    stopwatch = engines[0].pace.stopwatch()
    turn_until(engines, lambda: stopwatch.took().seconds > seconds)


def rest(
    engines: Sequence[DrivenEngine], seconds: float = 20.0
) -> list[SchedulerStats]:
    """Drives engines until no work is left and asserts that nothing is leaked."""
    turn_until(
        engines, lambda: not any(each.core.has_work for each in engines), seconds
    )
    found = [each.stats for each in engines]
    for stats in found:
        assert stats.totals.residue == Residue()
        assert stats.kv_blocks_used == stats.held.get("remote_kv", 0) == 0
        assert transfers_of(stats) == transfers_of(stats).at_rest()
        assert sum(stats.totals.finished.values()) == stats.totals.received
    return found
