"""How requests share a step."""

from dataclasses import dataclass
from enum import StrEnum

from hookline.config.checks import check_positive
from hookline.exceptions import ConfigError


class Policy(StrEnum):
    FCFS = "fcfs"
    PRIORITY = "priority"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerConfig:
    """How requests share a step.

    Attributes:
        max_num_seqs: Most requests in one step.
        max_num_batched_tokens: Token budget of one step.
        enable_chunked_prefill: Let a prompt be computed over several steps; without
            it, a prompt waits until the budget holds all of it.
        long_prefill_token_threshold: Most prompt tokens of one request a step; None
            lets one prompt take the whole budget.
        policy: Order of admission, and (reversed) of preemption.
        async_scheduling: Plan the next step while one is computed, before its tokens
            are known.
        max_num_queued_reqs: A server refuses requests beyond these and those that run;
            offline, prompts are the caller's own.
    """

    max_num_seqs: int = 256
    max_num_batched_tokens: int = 2048
    enable_chunked_prefill: bool = True
    long_prefill_token_threshold: int | None = None
    policy: Policy = Policy.FCFS
    async_scheduling: bool = False
    max_num_queued_reqs: int = 8192

    def __post_init__(self) -> None:
        check_positive("max-num-seqs", self.max_num_seqs)
        check_positive("max-num-batched-tokens", self.max_num_batched_tokens)
        check_positive(
            "long-prefill-token-threshold", self.long_prefill_token_threshold
        )
        check_positive("max-num-queued-reqs", self.max_num_queued_reqs)
        if not self.enable_chunked_prefill and self.long_prefill_token_threshold:
            raise ConfigError(
                "long-prefill-token-threshold", "needs chunked prefill, which is off"
            )
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise ConfigError(
                "max-num-batched-tokens",
                f"{self.max_num_batched_tokens} is less than max-num-seqs "
                f"({self.max_num_seqs}): each running request needs a token a step",
            )
