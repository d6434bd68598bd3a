"""Totals of an engine, and the audit that requests, tokens and blocks add up."""

from collections.abc import Collection, Iterable, Sequence

from msgspec.structs import astuple

from hookline.events import Preempted
from hookline.kv_cache import BlockPool
from hookline.request import FinishReason, Request
from hookline.stats.prefix_cache import PrefixCacheCounts
from hookline.stats.scheduler_stats import EngineTotals, Residue, RunningTotals


class Ledger(RunningTotals):
    """Totals since the engine's start, while they are counted."""

    def totals(self) -> EngineTotals:
        """Returns the totals so far."""
        return EngineTotals(*astuple(self))

    def receive(self, *, is_moved: bool) -> None:
        if is_moved:
            self.migrated_in += 1
        else:
            self.received += 1

    def count_finished(self, reason: FinishReason, output_tokens: int) -> None:
        # Replaced, because the totals of before keep theirs.
        self.finished = {**self.finished, reason: self.finished.get(reason, 0) + 1}
        self.finished_tokens += output_tokens

    def preempt(self, event: Preempted) -> None:
        self.preemptions += 1
        self.preempted_prompt_tokens += event.prompt_tokens
        self.preempted_output_tokens += event.output_tokens

    def count_lookup(self, queried_tokens: int, hit_tokens: int) -> None:
        before = self.prefix_cache
        self.prefix_cache = PrefixCacheCounts(
            before.requests + 1,
            before.queried_tokens + queried_tokens,
            before.hit_tokens + hit_tokens,
        )

    def audit(
        self,
        live: Collection[Request],
        pool: BlockPool,
        held_blocks: Iterable[Sequence[int]] = (),
    ) -> None:
        """Recounts what is in flight and stores what does not add up as `residue`.

        Args:
            live: All requests that have not ended.
            pool: Blocks, referenced by requests and extensions.
            held_blocks: Blocks that extensions reference.
        """
        tables = [*(request.block_ids for request in live), *held_blocks]
        held = set().union(*tables)
        entries = sum(map(len, tables))
        outputs = sum(request.num_output_tokens for request in live)
        self.residue = Residue(
            requests=self.received
            + self.migrated_in
            - sum(self.finished.values())
            - len(live),
            tokens=self.sampled_tokens - self.finished_tokens - outputs,
            blocks=abs(pool.num_used - len(held)) + abs(pool.num_references - entries),
        )
