"""Engine cores that a test drives, several of them in turns."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from hookline.core.engine_core import WAIT, EngineCore
from hookline.events import Finished
from hookline.request import EngineRequest, FinishReason
from hookline.sampling_params import SamplingParams
from hookline.stats import Residue, SchedulerStats


@dataclass
class DrivenEngine:
    """A core on the system's clock, and what it has told.

    Attributes:
        core: It.
        tokens: Of each request.
        ended: How each ended.
    """

    core: EngineCore
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
            EngineRequest(
                request_id=self._last_id,
                prompt_token_ids=list(prompt),
                params=SamplingParams(max_tokens=max_tokens, temperature=0.0),
                kv_transfer_params=None if params is None else dict(params),
            )
        )
        return self._last_id

    def abort(self, request_id: int) -> None:
        self.core.finish([request_id], FinishReason.ABORT, "gone")

    def turn(self) -> bool:
        """A step, if there is anything to do; whether there was."""
        if not self.core.has_work:
            return False
        output = self.core.step()
        for event in output.new_tokens:
            self.tokens[event.request_id].extend(event.token_ids)
        for end in output.finished:
            self.ended[end.request_id] = end
        return output.cause != WAIT

    @property
    def stats(self) -> SchedulerStats:
        return self.core.state("test").stats


def turn_until(
    engines: Sequence[DrivenEngine], is_so: Callable[[], bool], seconds: float = 20.0
) -> float:
    """Lets engines work until something is so; gives how long it took."""
    began_at = time.monotonic()
    while not is_so():
        have_worked = [each.turn() for each in engines]
        if not any(have_worked):
            time.sleep(0.002)
        assert time.monotonic() < began_at + seconds, [each.stats for each in engines]
    return time.monotonic() - began_at


def rest(
    engines: Sequence[DrivenEngine], seconds: float = 20.0
) -> list[SchedulerStats]:
    """Lets engines come to rest; afterwards nothing is held by anybody."""
    turn_until(
        engines, lambda: not any(each.core.has_work for each in engines), seconds
    )
    found = [each.stats for each in engines]
    for stats in found:
        assert stats.residue == Residue()
        assert stats.kv_blocks_used == stats.waiting_for_remote_kv == 0
        assert stats.transfers == stats.transfers.at_rest()
        assert sum(stats.finished.values()) == stats.received
    return found
