"""Outputs of requests: completions, whole or streamed."""

from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from hookline.pooling import PooledVectors
from hookline.request import FinishReason, TokenLogprobs


# No dataclass: one is made for each token, and that would take several times as long.
class CompletionOutput(msgspec.Struct, kw_only=True, gc=False):
    """One of a request's `n` completions; if streamed, the part since the last one.

    Attributes:
        index: Index among the `n` completions.
        text: Generated text; only the new text when streamed.
        token_ids: Generated tokens; only the new ones when streamed.
        logprobs: One entry for each of `token_ids`, or None if not requested.
        finish_reason: Why the completion ended; None until it has.
        stop_reason: Stop string or stop token id that ended the completion,
            `timeout` if its deadline did, or what was corrupted if that did. None if
            another cause, such as the model's end-of-text token, ended it.
        output_tokens: Number of tokens generated so far.
        draft_tokens: Number of draft tokens verified so far.
        accepted_tokens: Number of `draft_tokens` that were accepted.
    """

    index: int
    text: str
    token_ids: list[int]
    logprobs: list[TokenLogprobs] | None
    finish_reason: FinishReason | None
    stop_reason: str | int | None
    output_tokens: int
    draft_tokens: int = 0
    accepted_tokens: int = 0

    def followed_by(self, later: "CompletionOutput") -> "CompletionOutput":
        """Merges this streamed output with a later one."""
        logprobs = self.logprobs
        if logprobs is not None or later.logprobs is not None:
            logprobs = [*(logprobs or []), *(later.logprobs or [])]
        return replace(
            later,
            text=self.text + later.text,
            token_ids=self.token_ids + later.token_ids,
            logprobs=logprobs,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestMetrics:
    """Where a request's time went; seconds are None if a phase was not reached.

    Attributes:
        arrival_time: When the request arrived, in seconds since the epoch.
        queue_seconds: From the engine's queue to the first step.
        prefill_seconds: From the first step to the first token.
        decode_seconds: From the first token to the last.
        inference_seconds: From the first step to the last token.
        ttft_seconds: From arrival to the first token.
        tpot_seconds: Decode time per token after the first.
        e2e_seconds: From arrival to the end.
        preemptions: How often the request was preempted.
        draft_tokens: Number of draft tokens that were verified.
        steps_by_accepted: Number of steps that verified drafts, by how many of these
            were accepted; empty if there were none.
    """

    arrival_time: float
    queue_seconds: float | None
    prefill_seconds: float | None
    decode_seconds: float | None
    inference_seconds: float | None
    ttft_seconds: float | None
    tpot_seconds: float | None
    e2e_seconds: float
    preemptions: int
    draft_tokens: int = 0
    steps_by_accepted: tuple[int, ...] = ()


class RequestOutput(msgspec.Struct, kw_only=True, gc=False):  # as above
    """The output of a request; if streamed, the part since the last one.

    Attributes:
        prompt_token_ids: Tokens of the prompt.
        outputs: The completions, sorted by index. All `n` if not streamed, otherwise
            those with new output.
        prompt_logprobs: One entry for each prompt token but the first, or None if not
            requested. Streamed requests get them with their first output.
        cached_tokens: Number of prompt tokens that the first completion found in a
            prefix cache or a KV connector. The others find what the first computes.
        finished: Whether the request has ended, that is, this is its last output.
        request_id: The client's id of the request, or the engine's if it has none.
        prompt: Text of the prompt; None if the prompt was given as token ids.
        metrics: Times of the request, with the last output. Of several completions,
            those of the last to end.
        kv_transfer_params: Parameters from the KV connector for the client, with the
            last output. Of several completions, those of the first to end.
        vectors: The pooled hidden states of an embedding request; None otherwise.
    """

    prompt_token_ids: list[int]
    outputs: list[CompletionOutput]
    prompt_logprobs: list[TokenLogprobs] | None
    cached_tokens: int
    finished: bool
    request_id: str = ""
    prompt: str | None = None
    metrics: RequestMetrics | None = None
    kv_transfer_params: dict[str, object] | None = None
    vectors: PooledVectors | None = None

    def followed_by(self, later: "RequestOutput") -> "RequestOutput":
        """Merges this streamed output with a later one."""
        merged = {completion.index: completion for completion in self.outputs}
        for completion in later.outputs:
            earlier = merged.get(completion.index)
            merged[completion.index] = (
                earlier.followed_by(completion) if earlier else completion
            )
        return replace(
            later,
            outputs=[merged[index] for index in sorted(merged)],
            prompt_logprobs=self.prompt_logprobs or later.prompt_logprobs,
        )
