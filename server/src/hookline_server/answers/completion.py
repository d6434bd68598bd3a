"""Responses of `/v1/completions`."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec
from msgspec import UNSET, Raw, UnsetType

from hookline.outputs import CompletionOutput, RequestOutput
from hookline.request import TokenLogprobs
from hookline_server.answers.answer import (
    Identity,
    MetricsNote,
    UsageMeter,
    finish_word,
    transfer_params,
)
from hookline_server.answers.completion_logprobs import CompletionLogprobsMaker, joined
from hookline_server.answers.prompt_tokens import raw_token_ids, sliced_prompt_logprobs
from hookline_server.answers.settings import DEFAULT_RESPONSES, ResponseSettings
from hookline_server.answers.slices import SLICE_TOKENS, Columns, Turns
from hookline_server.answers.token_names import TokenNames
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
        settings: ResponseSettings = DEFAULT_RESPONSES,
    ) -> None:
        self._identity = identity
        self._request = request
        self._engine = engine
        self._echo = echo
        self._n = request.n or 1
        self._meter = UsageMeter()
        self._note = MetricsNote(settings)
        self._begun: set[int] = set()
        self._makers: dict[int, CompletionLogprobsMaker] = {}

    async def whole(self, outputs: Sequence[RequestOutput]) -> Completion:
        """Returns the response to a request without streaming."""
        turns, choices = Turns(), []
        for number, output in enumerate(outputs):
            self._take(number, output)
            prompt_logprobs = await sliced_prompt_logprobs(
                self._engine, output, self._request.prompt_logprobs, turns
            )
            prompt_token_ids = self._token_ids(output.prompt_token_ids)
            for each in output.outputs:
                logprobs = await self._sliced_logprobs(output, each, turns)
                has_echo = bool(self._echo.text)
                choice = self._choice(number, each, logprobs, has_echo=has_echo)
                choice.prompt_logprobs = prompt_logprobs
                choice.prompt_token_ids = prompt_token_ids
                choices.append(choice)
                await turns.took(len(each.token_ids))
        params = transfer_params(outputs[0]) if len(outputs) == 1 else UNSET
        message = self._message(choices, self._usage, params)
        return msgspec.structs.replace(message, metrics=self._note.noted)

    def chunks(
        self, batch: Iterable[tuple[int, RequestOutput]]
    ) -> Iterator[Completion]:
        """Returns one event for each choice with new text."""
        for number, output in batch:
            self._take(number, output)
            usage, last = self._usage_so_far(), len(output.outputs) - 1
            for at, each in enumerate(output.outputs):
                choice = self._new_part(number, output, each)
                params = transfer_params(output) if at == last else UNSET
                yield self._message([choice], usage, params)

    def usage_chunk(self) -> Completion | None:
        """Returns the usage event, if the client requested it."""
        if not self._request.has_usage_chunk:
            return None
        message = self._message([], self._usage)
        return msgspec.structs.replace(message, metrics=self._note.noted)

    def _take(self, number: int, output: RequestOutput) -> None:
        self._meter.add_output(number, output, n=self._n)
        self._note.add_output(number, output, n=self._n)

    def _new_part(
        self, number: int, output: RequestOutput, completion: CompletionOutput
    ) -> CompletionChoice:
        """Returns a choice's new part in a stream."""
        index = number * self._n + completion.index
        is_first = index not in self._begun
        has_echo = is_first and bool(self._echo.text)
        logprobs = None
        if self._request.logprobs is not None:
            logprobs = self._logprobs(index, output, completion, has_echo=has_echo)
        choice = self._choice(number, completion, logprobs, has_echo=has_echo)
        if is_first:
            self._begun.add(index)
            choice.prompt_token_ids = self._token_ids(output.prompt_token_ids)
        return choice

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
            token_ids=self._token_ids(
                [] if self._echo.is_alone else completion.token_ids
            ),
            finish_reason=self._finish_word(completion),
            stop_reason=None if self._echo.is_alone else completion.stop_reason,
        )

    def _token_ids(self, token_ids: Sequence[int]) -> Raw | UnsetType:
        if not self._request.return_token_ids:
            return UNSET
        return raw_token_ids(token_ids)

    async def _sliced_logprobs(
        self, output: RequestOutput, completion: CompletionOutput, turns: Turns
    ) -> Raw | None:
        """Returns the log-probabilities of a whole choice, echo included."""
        if self._request.logprobs is None:
            return None
        maker = self._maker()
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
            yield output.prompt_token_ids, self._echoed(output)
        if not self._echo.is_alone:
            yield completion.token_ids, completion.logprobs or ()

    def _echoed(self, output: RequestOutput) -> Sequence[TokenLogprobs | None]:
        """Returns the prompt's entries; `prompt_logprobs` may have asked for more."""
        entries = output.prompt_logprobs or []
        kept = (self._request.logprobs or 0) + 1
        if (self._request.prompt_logprobs or 0) >= kept:
            entries = [
                TokenLogprobs(each.token_ids[:kept], each.logprobs[:kept], each.rank)
                for each in entries
            ]
        return (None, *entries)

    def _logprobs(
        self,
        index: int,
        output: RequestOutput,
        completion: CompletionOutput,
        *,
        has_echo: bool,
    ) -> CompletionLogprobs:
        """Returns the log-probabilities of a choice's new part."""
        if (maker := self._makers.get(index)) is None:
            maker = self._makers[index] = self._maker()
        made = CompletionLogprobs([], [], [], [])
        if has_echo:
            made = maker.make(output.prompt_token_ids, self._echoed(output))
        if self._echo.is_alone:
            return made
        return joined(made, maker.make(completion.token_ids, completion.logprobs or ()))

    def _maker(self) -> CompletionLogprobsMaker:
        has_ids = bool(self._request.return_tokens_as_token_ids)
        return CompletionLogprobsMaker(TokenNames(self._engine, has_ids=has_ids))

    def _finish_word(self, completion: CompletionOutput) -> str | None:
        word = finish_word(completion)
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
            system_fingerprint=self._identity.system_fingerprint,
            choices=choices,
            usage=usage,
            kv_transfer_params=params,
        )
