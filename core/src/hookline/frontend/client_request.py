"""A client's request in the front end: its `n` completions and where news go."""

from collections.abc import Callable

from hookline.events import Finished, NewTokens
from hookline.exceptions import HooklineError
from hookline.finish_cause import FinishCause, StoppedByString, StoppedByToken
from hookline.frontend.input_processor import PreparedRequest
from hookline.frontend.text_stream import TextStream
from hookline.frontend.timeline import Timeline
from hookline.outputs import CompletionOutput, RequestOutput
from hookline.request import TokenLogprobs

News = RequestOutput | HooklineError
Deliver = Callable[[News], None]


class Completion:
    """One of a request's completions.

    It is open until the client's view of it ends; the engine's FINISHED may come later
    (a stop string, an abort).

    Attributes:
        request_id: The engine's id for it.
        is_open: Whether the client still expects news.
        finish_cause: Why it ended for the client; None while it is open.
        kept_token_ids: All its tokens, where prompts are kept.
    """

    __slots__ = (
        "_has_news",
        "_logprobs",
        "_texts",
        "_token_ids",
        "finish_cause",
        "index",
        "is_open",
        "kept_token_ids",
        "request",
        "request_id",
        "text",
        "timeline",
    )

    def __init__(
        self,
        request: "ClientRequest",
        index: int,
        request_id: int,
        text: TextStream,
        timeline: Timeline,
    ) -> None:
        self.request = request
        self.index = index
        self.request_id = request_id
        self.text = text
        self.timeline = timeline
        self.is_open = True
        self.finish_cause: FinishCause | None = None
        self.kept_token_ids: list[int] = []
        self._start_news()

    def take(self, event: NewTokens, end: Finished | None) -> bool:
        """Adds new tokens to the news; whether a stop string ended it with them."""
        shown = event.token_ids
        if end is not None and self._ends_unseen(end):
            shown = shown[:-1]
        text = self.text.push(shown)
        self._add(text, event.token_ids, event.logprobs)
        if self.text.stop_reason is None:
            return False
        self.close(StoppedByString(self.text.stop_reason))
        return True

    def end(self, event: Finished) -> None:
        """The engine ended it, and the client has not heard of it yet."""
        rest = self.text.flush()
        stop = self.text.stop_reason
        self.close(event.cause if stop is None else StoppedByString(stop))
        self._add(rest, [], None)

    def close(self, cause: FinishCause) -> None:
        self.is_open = False
        self.finish_cause = cause
        self.request.num_open -= 1

    def take_news(self) -> CompletionOutput | None:
        """All since the last time; None if there are none."""
        if not self._has_news:
            return None
        cause = self.finish_cause
        news = CompletionOutput(
            index=self.index,
            text="".join(self._texts),
            token_ids=self._token_ids,
            logprobs=self._logprobs,
            finish_reason=None if cause is None else cause.reason,
            stop_reason=self._stop_reason(),
            output_tokens=self.timeline.output_tokens,
            draft_tokens=self.timeline.draft_tokens,
            accepted_tokens=self.timeline.accepted_tokens,
        )
        self._start_news()
        return news

    def _start_news(self) -> None:
        self._has_news = False
        self._texts: list[str] = []
        self._token_ids: list[int] = []
        self._logprobs: list[TokenLogprobs] | None = None

    def _add(
        self, text: str, token_ids: list[int], logprobs: list[TokenLogprobs] | None
    ) -> None:
        """Gathers: a request that is not streamed has one piece of news in the end."""
        self._has_news = True
        self._texts.append(text)
        self._token_ids += token_ids
        if logprobs is not None:
            if self._logprobs is None:
                self._logprobs = []
            self._logprobs += logprobs

    def _ends_unseen(self, end: Finished) -> bool:
        """Whether the last token is a stop token that is left out of the text."""
        keeps_stop = self.request.prepared.params.include_stop_str_in_output
        return isinstance(end.cause, StoppedByToken) and not keeps_stop

    def _stop_reason(self) -> str | int | None:
        """The stop string or token that the client asked for and that ended it."""
        match self.finish_cause:
            case StoppedByString(text):
                return text
            case StoppedByToken(token_id):
                named = self.request.prepared.params.stop_token_ids
                return token_id if token_id in named else None
            case _:
                return None


class ClientRequest:
    """A client's request.

    Attributes:
        prepared: What was asked for.
        completions: All n.
        num_open: Completions whose news the client still expects.
        num_confirmed: Completions that the engine has ended.
        prompt_logprobs: Once they have come.
        kv_transfer_params: What the KV connector has for the client, once it is known.
        is_streamed: Whether the client gets its tokens as they come.
    """

    def __init__(
        self, prepared: PreparedRequest, deliver: Deliver, *, is_streamed: bool
    ) -> None:
        self.prepared = prepared
        self.completions: list[Completion] = []
        self.num_open = prepared.params.n
        self.num_confirmed = 0
        self.prompt_logprobs: list[TokenLogprobs] | None = None
        self.kv_transfer_params: dict[str, object] | None = None
        self._deliver = deliver
        self.is_streamed = is_streamed

    @property
    def request_id(self) -> str:
        """The client's id, or the engine's for the first completion if it has none."""
        return self.prepared.facts.client_id or str(self.completions[0].request_id)

    def deliver_news(self) -> None:
        """Sends what has gathered: each time if streamed, else once at the end."""
        if not self.is_streamed and self.num_open:
            return
        news = [completion.take_news() for completion in self.completions]
        logprobs, self.prompt_logprobs = self.prompt_logprobs, None
        first = self.completions[0].timeline
        self._deliver(
            RequestOutput(
                prompt_token_ids=self.prepared.prompt_token_ids,
                outputs=[output for output in news if output is not None],
                prompt_logprobs=logprobs,
                cached_tokens=first.local_cached_tokens + first.external_cached_tokens,
                finished=self.num_open == 0,
                request_id=self.request_id,
                prompt=self.prepared.prompt,
                kv_transfer_params=None if self.num_open else self.kv_transfer_params,
            )
        )

    def deliver_error(self, error: HooklineError) -> None:
        self._deliver(error)
