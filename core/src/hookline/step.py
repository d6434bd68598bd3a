"""The types of a step, which the scheduler plans and a worker computes.

Both import this module and neither imports the other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Self

import msgspec
from msgspec import structs

from hookline.finish_cause import FinishCause
from hookline.request import TokenLogprobs
from hookline.sampling_values import NO_DEFAULTS, SamplingDefaults, SamplingValues
from hookline.sections import Sections
from hookline.stats.step_work import (
    NO_EXECUTION,
    NO_WORK,
    Execution,
    RankUse,
    StepWork,
    ThreadUse,
)


class SleepLevel(IntEnum):
    """Memory that an executor releases while it sleeps.

    `KV_CACHE` releases the KV cache; `WEIGHTS` also the model's weights, which are
    reloaded on wake-up.
    """

    KV_CACHE = 1
    WEIGHTS = 2


class ModelCost(msgspec.Struct, frozen=True, kw_only=True):
    """Cost per token, per attention pair and per step; all 0 if unknown.

    Attributes:
        flops_per_token: Matrix products of the layers, with active experts only.
        flops_per_pair: Attention of all layers, per query and key.
        flops_per_sample: The output layer, per position with logits.
        weight_bytes: Bytes of weights, read once per step.
        kv_bytes_per_token: Bytes of keys and values of all layers, per token.
    """

    flops_per_token: float = 0.0
    flops_per_pair: float = 0.0
    flops_per_sample: float = 0.0
    weight_bytes: int = 0
    kv_bytes_per_token: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """The facts of a model that the core needs to schedule it; plain data.

    Attributes:
        architecture: Name of the model's class.
        dtype: Data type of weights.
        cache_dtype: Data type of the KV cache.
        vocab_size: Number of token ids.
        max_model_len: Context length in tokens.
        num_kv_blocks: Number of blocks in the KV cache; 0 before there is one.
        eos_token_ids: Tokens that end a text.
        cost: FLOPs and bytes of its steps; all zeros for a simulated model.
        kernels: Kernels in use, with the reason for each that is not the fastest; empty
            for a simulated model.
        isa: Instructions of the CPU's kernels, such as `avx512`; empty without them.
        kv_cache_spec_kind: What the KV cache holds: `full_attention`, or
            `mla_attention` for latents.
        sliding_window: Maximum number of tokens that layers with a sliding window
            attend to; None without such layers. The cache keeps all tokens.
        sampling: What requests get where they are silent.
        rank_sections: What extensions tell of each rank, by rank.
    """

    architecture: str
    dtype: str
    cache_dtype: str
    vocab_size: int
    max_model_len: int
    eos_token_ids: tuple[int, ...]
    num_kv_blocks: int = 0
    cost: ModelCost = field(default_factory=ModelCost)
    kernels: str = ""
    isa: str = ""
    kv_cache_spec_kind: str = "full_attention"
    sliding_window: int | None = None
    sampling: SamplingDefaults = NO_DEFAULTS
    rank_sections: tuple[Sections, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmittedSequence:
    """A request that joins the batch, for the first time or after a preemption.

    Attributes:
        request_id: Internal id.
        token_ids: Prompt, and output of earlier admissions.
        num_prompt_tokens: Length of the prompt.
        num_computed_tokens: Number of tokens whose K and V are in its blocks.
        block_ids: Its KV blocks in order of position.
        params: Sampling parameters.
        eos_token_ids: Stop tokens, which must not be sampled before `min_tokens`.
        bad_words_token_ids: Token sequences that must not be completed.
        completion_index: Index among the completions of the client's request. They
            share `params` and `bad_words_token_ids`, the same objects.
        is_prefill_only: Whether nothing is sampled for it.
        sections: What extensions get of it, by their names.
    """

    request_id: int
    token_ids: Sequence[int]
    num_prompt_tokens: int
    num_computed_tokens: int
    block_ids: Sequence[int]
    params: SamplingValues
    eos_token_ids: tuple[int, ...]
    bad_words_token_ids: tuple[tuple[int, ...], ...]
    completion_index: int = 0
    is_prefill_only: bool = False
    sections: Sections = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPlan:
    """One step: requests that leave and join the batch, and tokens to compute.

    Attributes:
        step: Number of the step, from 1.
        released: Requests that left the batch since the last step (ended, preempted).
        admitted: Requests that join it.
        request_ids: Scheduled requests: those with a single token first, then those
            with drafts, then the others.
        num_tokens: Number of tokens to compute per request, in the same order.
        new_block_ids: Blocks added to requests that were in the batch before.
        work: What there is to compute, in numbers.
        drafts: Draft tokens to verify after the newest token, by request id; counted in
            `num_tokens`.
        sections: What extensions add, by name; without requests they are only polled.
    """

    step: int
    released: Sequence[int] = ()
    admitted: Sequence[AdmittedSequence] = ()
    request_ids: Sequence[int] = ()
    num_tokens: Sequence[int] = ()
    new_block_ids: dict[int, Sequence[int]] = field(default_factory=dict)
    work: StepWork = NO_WORK
    drafts: dict[int, list[int]] = field(default_factory=dict)
    sections: Sections = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StepLogprobs:
    """Log-probabilities that a step has computed, by request id.

    Attributes:
        new_tokens: One entry per new token, for requests with `logprobs`.
        prompts: One entry per position after a computed one, for requests with
            `prompt_logprobs` whose prompt this step computed in part.
    """

    new_tokens: Mapping[int, list[TokenLogprobs]]
    prompts: Mapping[int, list[TokenLogprobs]]


NO_LOGPROBS = StepLogprobs({}, {})


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """The executor's results of one step.

    Attributes:
        tokens: New tokens by request id; none while a prompt is not finished. With
            drafts, the accepted ones and the token after them.
        logprobs: Log-probabilities of new tokens and of prompts.
        failed: Causes of errors by request id; these requests end, and their tokens in
            this result are invalid, but for those that are `Corrupted` and served.
        execution: What it took to compute them.
        drafts: Drafts for the next step by request id.
        sections: What extensions add, by their names.
    """

    tokens: dict[int, list[int]] = field(default_factory=dict)
    logprobs: StepLogprobs = NO_LOGPROBS
    failed: dict[int, FinishCause] = field(default_factory=dict)
    execution: Execution = NO_EXECUTION
    drafts: dict[int, list[int]] = field(default_factory=dict)
    sections: Sections = field(default_factory=dict)

    def with_execution(self, **facts: float | ThreadUse | RankUse) -> Self:
        """Returns the result with other facts of its execution."""
        return replace(self, execution=structs.replace(self.execution, **facts))
