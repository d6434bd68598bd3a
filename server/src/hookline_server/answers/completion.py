"""Responses of `/v1/completions`."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from msgspec import UNSET, Raw, UnsetType

from hookline.outputs import CompletionOutput, RequestOutput
from hookline.request import TokenLogprobs
from hookline_server.answers.answer import (
    Identity,
    UsageMeter,
    finish_word,
    transfer_params,
)
from hookline_server.answers.completion_logprobs import CompletionLogprobsMaker, joined
from hookline_server.answers.slices import SLICE_TOKENS, Columns, Turns
from hookline_server.engine import ServingEngine
from hookline_server.protocol.completion import (
    Completion,
    CompletionChoice,
    CompletionLogprobs,
    CompletionRequest,
)
from hookline_server.protocol.transfer_params import TransferParams
from hookline_server.protocol.usage import Usage


@dataclass(frozen=True, slots=True)
class Echo:
    """The echoed prompts of a request with `echo`.

    Attributes:
        text: Prompt texts by index; empty without `echo`.
        is_alone: Whether the prompt is the whole response, as no tokens were requested.
    """

    text: Sequence[str] = ()
    is_alone: bool = False


class CompletionAnswer:
    """Creates the messages of one request."""

    def __init__(
        self,
        identity: Identity,
        request: CompletionRequest,
        engine: ServingEngine,
        echo: Echo,
    ) -> None:
        self._identity = identity
        self._request = request
        self._engine = engine
        self._echo = echo
        self._n = request.n or 1
        self._meter = UsageMeter()
        self._makers: dict[int, CompletionLogprobsMaker] = {}

    async def whole(self, outputs: Sequence[RequestOutput]) -> Completion:
        """Returns the response to a request without streaming."""
        turns, choices = Turns(), []
        for number, output in enumerate(outputs):
            self._meter.take(number, output, n=self._n)
            for each in output.outputs:
                logprobs = await self._sliced_logprobs(output, each, turns)
                has_echo = bool(self._echo.text)
                choices.append(self._choice(number, each, logprobs, has_echo=has_echo))
        params = transfer_params(outputs[0]) if len(outputs) == 1 else UNSET
        return self._message(choices, self._usage, params)

    def chunks(
        self, batch: Iterable[tuple[int, RequestOutput]]
    ) -> Iterator[Completion]:
        """Returns one event for each choice with new text."""
        for number, output in batch:
            choices = list(self._choices(number, output))
            for choice in choices:
                params = transfer_params(output) if choice is choices[-1] else UNSET
                yield self._message([choice], self._usage_so_far(), params)

    def usage_chunk(self) -> Completion | None:
        """Returns the usage event, if the client requested it."""
        if not self._request.has_usage_chunk:
            return None
        return self._message([], self._usage)

    def _choices(
        self, number: int, output: RequestOutput
    ) -> Iterator[CompletionChoice]:
        """Yields each choice's new part in a stream."""
        self._meter.take(number, output, n=self._n)
        for each in output.outputs:
            index = number * self._n + each.index
            has_echo = index not in self._makers and bool(self._echo.text)
            maker = self._makers.setdefault(
                index, CompletionLogprobsMaker(self._engine)
            )
            logprobs = self._logprobs(maker, output, each, has_echo=has_echo)
            yield self._choice(number, each, logprobs, has_echo=has_echo)

    def _choice(
        self,
        number: int,
        completion: CompletionOutput,
        logprobs: CompletionLogprobs | Raw | None,
        *,
        has_echo: bool,
    ) -> CompletionChoice:
        text = "" if self._echo.is_alone else completion.text
        return CompletionChoice(
            index=number * self._n + completion.index,
            text=self._echo.text[number] + text if has_echo else text,
            logprobs=logprobs,
            finish_reason=self._finish_word(completion),
            stop_reason=None if self._echo.is_alone else completion.stop_reason,
        )

    async def _sliced_logprobs(
        self, output: RequestOutput, completion: CompletionOutput, turns: Turns
    ) -> Raw | None:
        """Returns the log-probabilities of a whole choice, echo included."""
        if self._request.logprobs is None:
            return None
        maker = CompletionLogprobsMaker(self._engine)
        columns = Columns(CompletionLogprobs([], [], [], []))
        for token_ids, entries in self._scored(output, completion):
            for start in range(0, len(token_ids), SLICE_TOKENS):
                part = slice(start, start + SLICE_TOKENS)
                made = maker.make(token_ids[part], entries[part])
                columns.add(
                    made.tokens,
                    made.token_logprobs,
                    made.top_logprobs,
                    made.text_offset,
                )
                await turns.took(len(made.tokens))
        completion.logprobs = None  # to free them now, and not all choices' at once
        return columns.raw()

    def _scored(
        self, output: RequestOutput, completion: CompletionOutput
    ) -> Iterator[tuple[Sequence[int], Sequence[TokenLogprobs | None]]]:
        """Yields a choice's tokens with their log-probabilities, the echo first."""
        if self._echo.text:
            yield output.prompt_token_ids, (None, *(output.prompt_logprobs or ()))
        if not self._echo.is_alone:
            yield completion.token_ids, completion.logprobs or ()

    def _logprobs(
        self,
        maker: CompletionLogprobsMaker,
        output: RequestOutput,
        completion: CompletionOutput,
        *,
        has_echo: bool,
    ) -> CompletionLogprobs | None:
        if self._request.logprobs is None:
            return None
        made = CompletionLogprobs([], [], [], [])
        if has_echo:
            prompt = output.prompt_token_ids
            entries = (None, *(output.prompt_logprobs or ()))
            made = maker.make(prompt, entries)
        if self._echo.is_alone:
            return made
        return joined(made, maker.make(completion.token_ids, completion.logprobs or ()))

    def _finish_word(self, completion: CompletionOutput) -> str | None:
        word = finish_word(completion.finish_reason)
        return "length" if word is not None and self._echo.is_alone else word

    @property
    def _usage(self) -> Usage:
        return (
            self._meter.usage_of_prompts if self._echo.is_alone else self._meter.usage
        )

    def _usage_so_far(self) -> Usage | UnsetType | None:
        if self._request.has_continuous_usage:
            return self._usage
        return None if self._request.has_usage_chunk else UNSET

    def _message(
        self,
        choices: list[CompletionChoice],
        usage: Usage | UnsetType | None,
        params: TransferParams = UNSET,
    ) -> Completion:
        return Completion(
            id=self._identity.id,
            created=self._identity.created,
            model=self._identity.model,
            choices=choices,
            usage=usage,
            kv_transfer_params=params,
        )
