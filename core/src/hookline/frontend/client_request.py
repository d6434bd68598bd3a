"""A client's request in the front end: its completions and their delivery."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hookline.clock import NANOSECONDS
from hookline.events import Finished, NewTokens
from hookline.exceptions import GrammarError, HooklineError, RefusedError
from hookline.finish_cause import (
    Corrupted,
    FinishCause,
    Rejected,
    StoppedByString,
    StoppedByToken,
    TimedOut,
)
from hookline.frontend.request_account import RequestAccount
from hookline.frontend.stop_strings import StopScope, StopSearch
from hookline.frontend.text_stream import TextStream
from hookline.frontend.timeline import ClockMapping
from hookline.outputs import CompletionOutput, RequestOutput
from hookline.pooling import PooledVectors
from hookline.request import GenerateRequest, TokenLogprobs

Delivery = RequestOutput | HooklineError
Deliver = Callable[[Delivery], None]

MOST_RESTARTS = 2
"""How often a request may begin again whose engines were all ended from outside."""


@dataclass(slots=True, eq=False, repr=False)
class CompletionState:
    """One of a request's `n` completions.

    A stop string or an abort closes it before the engine's FINISHED arrives.

    Attributes:
        request: The client's request.
        account: The completion in numbers, with its ids and why it ended.
        text: Its text so far; None before its request's first tokens.
    """

    request: "ClientRequest"
    account: RequestAccount
    text: TextStream | None = None
    _texts: list[str] = field(default_factory=list)
    _token_ids: list[int] = field(default_factory=list)
    _logprobs: list[TokenLogprobs] | None = None

    @property
    def is_open(self) -> bool:
        """Whether the client still expects output."""
        return self.account.cause is None

    def add_tokens(self, event: NewTokens, end: Finished | None) -> FinishCause | None:
        """Adds new tokens to the pending output.

        Args:
            event: The tokens.
            end: The engine's FINISHED, if these are the last tokens.

        Returns:
            The stop string that the tokens complete, or None.
        """
        assert self.text is not None, "the request's first tokens have begun it"
        shown = event.token_ids
        if end is not None and self._hides_last_token(end):
            shown = shown[:-1]
        self._add(self.text.push(shown), event.token_ids, event.logprobs)
        stop = self.text.stop_reason
        return None if stop is None else StoppedByString(stop)

    def on_finished(self, event: Finished) -> FinishCause:
        """Adds the rest of the text to the pending output; returns the finish cause.

        The rest may complete a stop string, which then is the cause.
        """
        if self.text is None:  # it has no tokens
            self._add("", [], None)
            return event.cause
        self._add(self.text.flush(), [], None)
        stop = self.text.stop_reason
        return event.cause if stop is None else StoppedByString(stop)

    def restart(self) -> None:
        """Forgets all tokens, which another engine generates again."""
        self.text = None
        self._clear_output()

    def close(self, cause: FinishCause) -> None:
        """Tells the request that it has ended for its client."""
        self.request.num_open -= 1
        if isinstance(cause, Rejected):
            if cause.kind == GrammarError.KIND:
                self.request.refusal = GrammarError(cause.message)
            else:
                self.request.refusal = RefusedError(cause.kind, cause.message)
        self.request.last_closed = self

    def take_output(self) -> CompletionOutput | None:
        """Returns the output since the last call, or None if there was none."""
        if not self._texts:
            return None
        cause, timeline = self.account.cause, self.account.timeline
        output = CompletionOutput(
            index=self.account.index,
            text="".join(self._texts),
            token_ids=self._token_ids,
            logprobs=self._logprobs,
            finish_reason=None if cause is None else cause.reason,
            stop_reason=None if cause is None else self._stop_reason(cause),
            output_tokens=timeline.output_tokens,
            draft_tokens=timeline.draft_tokens,
            accepted_tokens=timeline.accepted_tokens,
        )
        self._clear_output()
        return output

    def _clear_output(self) -> None:
        self._texts: list[str] = []
        self._token_ids: list[int] = []
        self._logprobs: list[TokenLogprobs] | None = None

    def _add(
        self,
        text: str,
        token_ids: Sequence[int],
        logprobs: Sequence[TokenLogprobs] | None,
    ) -> None:
        """Collects output; without streaming, all of it is delivered at once."""
        self._texts.append(text)
        self._token_ids += token_ids
        if logprobs is not None:
            if self._logprobs is None:
                self._logprobs = []
            self._logprobs += logprobs

    def _hides_last_token(self, end: Finished) -> bool:
        """Whether the last token is a stop token that the text leaves out."""
        keeps_stop = self.request.inner.params.include_stop_str_in_output
        return isinstance(end.cause, StoppedByToken) and not keeps_stop

    def _stop_reason(self, cause: FinishCause) -> str | int | None:
        """The client's stop string or stop token, `timeout`, or what was corrupted."""
        match cause:
            case StoppedByString(text):
                return text
            case StoppedByToken(token_id):
                requested = self.request.inner.params.stop_token_ids
                return token_id if token_id in requested else None
            case TimedOut():
                return cause.reason.value
            case Corrupted():
                return cause.detail
            case _:
                return None


@dataclass(slots=True, eq=False, repr=False)
class ClientRequest:
    """A client's request, and where it is.

    Attributes:
        inner: The request as it was sent, with the id of its first completion.
        deliver: Called with its outputs.
        is_streamed: Whether the client gets output with each step.
        engine_index: The engine that runs all of its completions.
        is_named: Whether its client has named that engine.
        ends_at: When it ends at the latest, ns on the front end's clock; None: never.
        prompt: Text of the prompt; None if it was given as token ids.
        completions: All `n` of them, by index.
        num_open: Number of completions whose client still expects output.
        last_closed: The completion that ended last; None while none has.
        prompt_logprobs: Log-probabilities of the prompt, until they are delivered.
        refusal: Error for the client if the engine has rejected it; None otherwise.
        kv_transfer_params: Parameters from the KV connector for the client, if any.
        has_delivered: Whether the client has got any output.
        num_restarts: How often it has begun again, at another engine or process.
        is_suspect: Whether an engine that failed by itself had it.
        vectors: Its pooled hidden states, if it has a pooling and they have come.
        stop_scope: Makes what looks for stop strings, perhaps in a part of the text.
    """

    inner: GenerateRequest
    deliver: Deliver
    is_streamed: bool
    engine_index: int = 0
    is_named: bool = False
    ends_at: int | None = None
    prompt: str | None = None
    completions: list[CompletionState] = field(default_factory=list)
    num_open: int = 0
    last_closed: CompletionState | None = None
    prompt_logprobs: list[TokenLogprobs] | None = None
    refusal: RefusedError | None = None
    kv_transfer_params: dict[str, object] | None = None
    has_delivered: bool = False
    num_restarts: int = 0
    is_suspect: bool = False
    vectors: PooledVectors | None = None
    stop_scope: StopScope = StopSearch

    @property
    def is_untouched(self) -> bool:
        """Whether it can begin again without its client noticing.

        A request that was there when two engines ended may have caused both ends.
        """
        most = 1 if self.is_suspect else MOST_RESTARTS
        return not self.has_delivered and self.num_restarts < most

    @property
    def open_ids(self) -> list[int]:
        """Ids of the completions whose client still expects output."""
        return [each.account.request_id for each in self.completions if each.is_open]

    def begin_texts(self, texts: Sequence[TextStream]) -> None:
        """Takes an empty text stream for each completion; those that have one keep it.

        Called with the first tokens, so that requests that wait hold no text streams.
        """
        for completion, text in zip(self.completions, texts, strict=True):
            completion.text = completion.text or text

    def restart(self) -> None:
        """Forgets the outputs of an engine that has ended; another one begins again.

        Completions that have ended stay as they are.
        """
        for completion in self.completions:
            if completion.is_open:
                completion.restart()
        if self.completions[0].is_open:
            self.prompt_logprobs = None
        self.kv_transfer_params = None
        self.num_restarts += 1

    def deliver_output(self, wall: ClockMapping) -> None:
        """Delivers output: each time if streamed, otherwise once all have ended.

        If the engine has rejected the request, the error takes its place.

        Args:
            wall: Places the request's arrival on the wall clock.
        """
        if self.refusal is not None:
            self.deliver(self.refusal)
            return
        if not self.is_streamed and self.num_open:
            return
        self.has_delivered = True
        output = filter(None, map(CompletionState.take_output, self.completions))
        last = None if self.num_open else self.last_closed
        logprobs, self.prompt_logprobs = self.prompt_logprobs, None
        first, inner = self.completions[0].account.timeline, self.inner
        self.deliver(
            RequestOutput(
                prompt_token_ids=inner.prompt_token_ids,
                outputs=list(output),
                prompt_logprobs=logprobs,
                cached_tokens=first.local_cached_tokens + first.external_cached_tokens,
                finished=not self.num_open,
                request_id=inner.facts.client_id or str(inner.request_id),
                prompt=self.prompt,
                metrics=None if last is None else last.account.metrics(wall),
                kv_transfer_params=None if self.num_open else self.kv_transfer_params,
                vectors=self.vectors,
            )
        )


def seconds_until(ends_at: int, now: int) -> float:
    """Returns the time between two times in ns, at least 0."""
    return max(0, ends_at - now) / NANOSECONDS
