"""Configuration of the scheduler: limits of a step, queue and policies."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Self

from hookline.config.options import check_options, option
from hookline.exceptions import ConfigError

_TOKENS_ON_CPU, _TOKENS_ON_GPU = 2048, 8192


class Policy(StrEnum):
    FCFS = "fcfs"
    PRIORITY = "priority"
    FAIR = "fair"


class SleepPolicy(StrEnum):
    WAIT = "wait"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerConfig:
    """Limits of a step, of the queue, and scheduling policies."""

    max_num_seqs: int = option(
        "Maximum number of requests per step.",
        default=256,
        metavar="REQUESTS",
        minimum=1,
    )
    max_num_queued_reqs: int = option(
        "Maximum number of requests waiting in the server's queue; further ones "
        "are refused with status 429. Ignored offline.",
        default=8192,
        metavar="REQUESTS",
        minimum=1,
    )
    max_num_queued_tokens: int | None = option(
        "Maximum number of prompt tokens waiting in the server's queue; further "
        "requests are refused with status 429. Ignored offline.",
        default=None,
        metavar="TOKENS",
        minimum=1,
        shown_default="4194304, or max-model-len if that is more",
    )
    max_num_batched_tokens: int | None = option(
        "Maximum number of tokens computed per step.",
        default=None,
        metavar="TOKENS",
        minimum=1,
        shown_default=f"{_TOKENS_ON_GPU} if uniproc runs on a GPU, otherwise "
        f"{_TOKENS_ON_CPU}; max-num-seqs if that is more",
    )
    enable_chunked_prefill: bool = option(
        "Split long prefills over several steps; otherwise a prompt waits until "
        "it fits whole into one step.",
        default=True,
    )
    long_prefill_token_threshold: int | None = option(
        "Maximum number of prompt tokens of one request per step; 0 is no limit.",
        default=None,
        metavar="TOKENS",
        minimum=0,
        shown_default="max-num-batched-tokens",
    )
    policy: Policy = option(
        "Order of admission, and in reverse of preemption: first come first "
        "served, by the requests' priority, or by turns between tenants according "
        "to the tokens that they were served and their weights.",
        default=Policy.FCFS,
        flag="scheduling-policy",
    )
    priority_aging: float = option(
        "Wait after which a request counts as one priority level more urgent, so "
        "that none waits for ever under the priority policy; 0 disables it.",
        default=30.0,
        metavar="SECONDS",
        minimum=0,
        maximum=1e6,
    )
    async_scheduling: bool | None = option(
        "Schedule the next step while the current one runs.",
        default=None,
        shown_default="yes if uniproc runs on a GPU without drafts, otherwise no",
    )
    sleep_policy: SleepPolicy = option(
        "What happens to requests that arrive while the engine sleeps: they wait "
        "for its wake-up, or are refused with status 503.",
        default=SleepPolicy.WAIT,
    )

    @property
    def tokens_per_step(self) -> int:
        """Maximum number of tokens per step; that of CPUs unless it is set."""
        return self.max_num_batched_tokens or max(_TOKENS_ON_CPU, self.max_num_seqs)

    def on_gpu(self, *, drafts: bool) -> Self:
        """Returns the configuration with the defaults of a model on a GPU."""
        tokens = self.max_num_batched_tokens or max(_TOKENS_ON_GPU, self.max_num_seqs)
        ahead = self.async_scheduling
        ahead = not drafts if ahead is None else ahead
        return replace(self, max_num_batched_tokens=tokens, async_scheduling=ahead)

    @property
    def has_priorities(self) -> bool:
        """Whether requests are served by their priorities."""
        return self.policy is Policy.PRIORITY

    @property
    def is_fair(self) -> bool:
        """Whether tenants are served by their shares."""
        return self.policy is Policy.FAIR

    def __post_init__(self) -> None:
        check_options(self)
        if not self.enable_chunked_prefill and self.long_prefill_token_threshold:
            raise ConfigError(
                "long-prefill-token-threshold", "requires enable-chunked-prefill"
            )
        if self.tokens_per_step < self.max_num_seqs:
            raise ConfigError(
                "max-num-batched-tokens",
                f"{self.max_num_batched_tokens} is less than max-num-seqs "
                f"({self.max_num_seqs}): every running request needs a token per step",
            )
