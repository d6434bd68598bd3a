"""Totals of an engine, and the audit that requests, tokens and blocks add up."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from hookline.events import Preempted
from hookline.kv_cache import BlockPool
from hookline.request import FinishReason, Request
from hookline.stats import PrefixCacheCounts, Residue


@dataclass(slots=True)
class Ledger:
    """Totals since the engine's start.

    Attributes:
        received: Number of requests received.
        migrated_in: Number of requests that another engine had received before it
            ended; they are not in `received`.
        finished: Number of finished requests by reason.
        preemptions: Number of preemptions.
        preempted_prompt_tokens: Prompt tokens of preempted requests, once for each
            preemption.
        preempted_output_tokens: Tokens generated for preempted requests before,
            likewise.
        sampled_tokens: Output tokens of all requests.
        discarded_tokens: Sampled tokens of requests that had already ended, or that had
            been computed from wrong KV.
        finished_tokens: Output tokens of finished requests.
        computed_tokens: Computed tokens, recomputed ones included.
        recomputed_tokens: Tokens computed again after a preemption.
        prefix_cache: Prefix cache lookups, once a request.
        residue: Result of the last audit.
    """

    received: int = 0
    migrated_in: int = 0
    finished: dict[str, int] = field(default_factory=dict)
    preemptions: int = 0
    preempted_prompt_tokens: int = 0
    preempted_output_tokens: int = 0
    sampled_tokens: int = 0
    discarded_tokens: int = 0
    finished_tokens: int = 0
    computed_tokens: int = 0
    recomputed_tokens: int = 0
    prefix_cache: PrefixCacheCounts = field(default_factory=PrefixCacheCounts)
    residue: Residue = field(default_factory=Residue)

    def receive(self, *, is_moved: bool) -> None:
        if is_moved:
            self.migrated_in += 1
        else:
            self.received += 1

    def end(self, reason: FinishReason, output_tokens: int) -> None:
        self.finished[reason] = self.finished.get(reason, 0) + 1
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
