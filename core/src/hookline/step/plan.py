"""What a step is to compute and what came of it: plain data from core to worker."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from hookline.kv_transfer.orders import TransferOrders, TransferReport
from hookline.request import TokenLogprobs
from hookline.sampling_params import SamplingParams


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmittedSequence:
    """A request that joins the batch, first or again.

    Attributes:
        request_id: Internal id.
        token_ids: All its tokens: prompt, and output of earlier admissions.
        num_prompt_tokens: Of these, the prompt.
        num_computed_tokens: Tokens whose K and V are in its blocks already.
        block_ids: Its blocks.
        params: How it is sampled.
        eos_token_ids: Tokens that must not come before `min_tokens`.
        bad_words_token_ids: Sequences that must not be completed.
    """

    request_id: int
    token_ids: Sequence[int]
    num_prompt_tokens: int
    num_computed_tokens: int
    block_ids: Sequence[int]
    params: SamplingParams
    eos_token_ids: tuple[int, ...]
    bad_words_token_ids: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPlan:
    """One step: who leaves, who joins, and how many tokens each computes.

    Attributes:
        step: Counts from 1.
        released: Requests that left the batch since the last step (ended, preempted).
        admitted: Requests that join it.
        request_ids: Requests scheduled: those with a single token first, then those
            with drafts.
        num_tokens: How many tokens each computes, in the same order.
        new_block_ids: Blocks added to requests that were in the batch before.
        context_tokens: Tokens in the cache that the scheduled requests will read.
        attention_pairs: Pairs of a token to compute and one that it attends to: for q
            tokens after c computed ones q·c + q(q+1)/2, which of a tree of drafts is
            somewhat too much.
        prefill_requests: Scheduled requests that compute prompt or recomputed tokens.
        prefill_tokens: Theirs.
        drafts: By request id, tokens to verify behind its newest one; they are among
            its `num_tokens`, and their blocks are its.
        transfers: Orders of the KV connector, where there is one. A plan without
            requests has nothing else, and is no step.
    """

    step: int
    released: Sequence[int] = ()
    admitted: Sequence[AdmittedSequence] = ()
    request_ids: Sequence[int] = ()
    num_tokens: Sequence[int] = ()
    new_block_ids: dict[int, Sequence[int]] = field(default_factory=dict)
    context_tokens: int = 0
    attention_pairs: int = 0
    prefill_requests: int = 0
    prefill_tokens: int = 0
    drafts: dict[int, list[int]] = field(default_factory=dict)
    transfers: TransferOrders | None = None

    @property
    def total_tokens(self) -> int:
        return sum(self.num_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """What the executor computed.

    Attributes:
        tokens: New tokens by request id; a request whose prompt is not finished has
            none. Of one with drafts the accepted ones, and the token behind them.
        logprobs: For requests that asked for them, one entry a new token.
        failed: Requests to be ended with an error, and its cause; their tokens in this
            result mean nothing.
        prompt_logprobs: For requests that asked for them, whose prompt this step
            computed (in part); one entry for each position after a computed one.
        forward_ns: Time in the model's forward pass.
        drafts: For the next step, by request id.
        draft_ns: Time that making them took.
        most_drafts: Of a request, that the engine would have it asked for.
        proposer_failures: Of the proposer in this step, by cause.
        transfers: What became of KV transfers, where there is a connector.
    """

    tokens: dict[int, list[int]] = field(default_factory=dict)
    logprobs: dict[int, list[TokenLogprobs]] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)
    prompt_logprobs: dict[int, list[TokenLogprobs]] = field(default_factory=dict)
    forward_ns: int = 0
    drafts: dict[int, list[int]] = field(default_factory=dict)
    draft_ns: int = 0
    most_drafts: int = 0
    proposer_failures: dict[str, int] = field(default_factory=dict)
    transfers: TransferReport | None = None
