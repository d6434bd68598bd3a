"""What a caller gets back: completions, whole or as they grow."""

from dataclasses import dataclass

from hookline.request import FinishReason, TokenLogprobs


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionOutput:
    """News of one of a request's `n` completions, or all of it.

    Attributes:
        index: Which of the n.
        text: New text when streamed, else all of it.
        token_ids: New tokens when streamed, else all of them.
        logprobs: One entry for each of `token_ids`, if asked for.
        finish_reason: Set with the last news.
        stop_reason: The stop string or stop token that ended it, if one did; the
            model's own end-of-text token gives None.
        output_tokens: Tokens so far.
        draft_tokens: Draft tokens verified for it so far.
        accepted_tokens: Of these, accepted.
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
        """Both pieces of news as one."""
        logprobs = self.logprobs
        if logprobs is not None or later.logprobs is not None:
            logprobs = [*(logprobs or []), *(later.logprobs or [])]
        return CompletionOutput(
            index=self.index,
            text=self.text + later.text,
            token_ids=self.token_ids + later.token_ids,
            logprobs=logprobs,
            finish_reason=later.finish_reason,
            stop_reason=later.stop_reason,
            output_tokens=later.output_tokens,
            draft_tokens=later.draft_tokens,
            accepted_tokens=later.accepted_tokens,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOutput:
    """News of a request.

    Attributes:
        prompt_token_ids: The prompt.
        completions: Those with news, by index; all n when not streamed.
        prompt_logprobs: With the first output, if asked for: one entry for each prompt
            token but the first.
        cached_tokens: Prompt tokens that came from a cache.
        is_finished: Whether this is the last output.
        kv_transfer_params: With the last output: what the KV connector has for the
            client, of the completion that ended first where it has it for several.
    """

    prompt_token_ids: list[int]
    completions: list[CompletionOutput]
    prompt_logprobs: list[TokenLogprobs] | None
    cached_tokens: int
    is_finished: bool
    kv_transfer_params: dict[str, object] | None = None

    def followed_by(self, later: "RequestOutput") -> "RequestOutput":
        """Both pieces of news as one."""
        merged = {completion.index: completion for completion in self.completions}
        for completion in later.completions:
            earlier = merged.get(completion.index)
            merged[completion.index] = (
                earlier.followed_by(completion) if earlier else completion
            )
        return RequestOutput(
            prompt_token_ids=self.prompt_token_ids,
            completions=[merged[index] for index in sorted(merged)],
            prompt_logprobs=self.prompt_logprobs or later.prompt_logprobs,
            cached_tokens=max(self.cached_tokens, later.cached_tokens),
            is_finished=later.is_finished,
            kv_transfer_params=later.kv_transfer_params,
        )
