"""What an engine's whole experts have done since its start."""

import msgspec

from hookline.sections import Section
from hookline.stats.scheduler_stats import SchedulerStats
from hookline.stats.step_work import RankUse


class ExpertStats(msgspec.Struct, frozen=True, array_like=True):
    """Totals since the engine's start, its dummy steps included.

    Attributes:
        tokens: Number of pairs of a token and an expert that each rank computed, by
            rank; empty without whole experts.
        busiest_tokens: Number of such pairs that the ranks could have computed in the
            time of the busiest one, of any engine that shares the experts.
        dummy_steps: Steps without work, in which only other engines had tokens.
        wait_ns: Time that the engine's own steps waited for other engines.
    """

    tokens: tuple[int, ...] = ()
    busiest_tokens: int = 0
    dummy_steps: int = 0
    wait_ns: int = 0

    def with_step(self, use: RankUse) -> "ExpertStats":
        """Returns the totals after a step with work."""
        return msgspec.structs.replace(
            self,
            tokens=_sum(self.tokens, use.expert_tokens),
            busiest_tokens=self.busiest_tokens + use.expert_busiest_tokens,
            wait_ns=self.wait_ns + use.expert_wait_ns,
        )

    def with_dummy_step(self, use: RankUse) -> "ExpertStats":
        """Returns the totals after a dummy step, whose waiting delays nobody."""
        added = self.with_step(msgspec.structs.replace(use, expert_wait_ns=0))
        return msgspec.structs.replace(added, dummy_steps=self.dummy_steps + 1)


def _sum(before: tuple[int, ...], more: tuple[int, ...]) -> tuple[int, ...]:
    if not before or not more:
        return before or more
    return tuple(a + b for a, b in zip(before, more, strict=True))


EXPERT_STATS = Section("experts", ExpertStats)
"""The section of states."""

_NO_EXPERTS = ExpertStats()


def expert_stats(stats: SchedulerStats) -> ExpertStats:
    """Returns what an engine's whole experts have done; zeros if it has none."""
    return EXPERT_STATS.read(stats.sections) or _NO_EXPERTS
