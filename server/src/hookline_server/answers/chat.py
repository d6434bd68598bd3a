"""Responses of `/v1/chat/completions`."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import UNSET, UnsetType

from hookline.outputs import CompletionOutput, RequestOutput
from hookline.request import TokenLogprobs
from hookline_server.answers.answer import (
    Identity,
    UsageMeter,
    finish_word,
    transfer_params,
)
from hookline_server.answers.chat_logprobs import chat_logprobs
from hookline_server.engine import ServingEngine
from hookline_server.protocol.chat import (
    AnswerMessage,
    ChatChoice,
    ChatChunk,
    ChatCompletion,
    ChatLogprobs,
    ChatRequest,
    ChunkChoice,
    Delta,
)
from hookline_server.protocol.transfer_params import TransferParams
from hookline_server.protocol.usage import Usage


class ChatAnswer:
    """Creates the messages of one request."""

    def __init__(
        self, identity: Identity, request: ChatRequest, engine: ServingEngine
    ) -> None:
        self._identity = identity
        self._request = request
        self._engine = engine
        self._meter = UsageMeter()
        self._begun: set[int] = set()

    def whole(self, outputs: Sequence[RequestOutput]) -> ChatCompletion:
        """Returns the response to a request without streaming."""
        output = outputs[0]
        self._meter.take(0, output, n=1)
        return ChatCompletion(
            id=self._identity.id,
            created=self._identity.created,
            model=self._identity.model,
            choices=[self._choice(completion) for completion in output.outputs],
            usage=self._meter.usage,
            kv_transfer_params=transfer_params(output),
        )

    def chunks(self, batch: Iterable[tuple[int, RequestOutput]]) -> Iterator[ChatChunk]:
        """Returns each choice's events: its role, its text and its end."""
        for _, output in batch:
            self._meter.take(0, output, n=1)
            choices = [
                choice
                for completion in output.outputs
                for choice in self._chunk_choices(completion)
            ]
            for choice in choices:
                params = transfer_params(output) if choice is choices[-1] else UNSET
                yield self._chunk([choice], self._usage_so_far(), params)

    def usage_chunk(self) -> ChatChunk | None:
        """Returns the usage event, if the client requested it."""
        if not self._request.has_usage_chunk:
            return None
        return self._chunk([], self._meter.usage)

    def _choice(self, completion: CompletionOutput) -> ChatChoice:
        return ChatChoice(
            index=completion.index,
            message=AnswerMessage(completion.text),
            logprobs=self._logprobs(completion.logprobs),
            finish_reason=finish_word(completion.finish_reason) or "length",
            stop_reason=completion.stop_reason,
        )

    def _chunk_choices(self, completion: CompletionOutput) -> Iterator[ChunkChoice]:
        index = completion.index
        if index not in self._begun:
            self._begun.add(index)
            yield ChunkChoice(index=index, delta=Delta(role="assistant", content=""))
        word = finish_word(completion.finish_reason)
        if completion.text or completion.token_ids:
            yield ChunkChoice(
                index=index,
                delta=Delta(content=completion.text),
                logprobs=self._logprobs(completion.logprobs),
            )
        if word is not None:
            yield ChunkChoice(
                index=index,
                delta=Delta(),
                finish_reason=word,
                stop_reason=completion.stop_reason,
            )

    def _logprobs(self, entries: list[TokenLogprobs] | None) -> ChatLogprobs | None:
        if not self._request.logprobs:
            return None
        return chat_logprobs(self._engine, entries or ())

    def _usage_so_far(self) -> Usage | UnsetType | None:
        if self._request.has_continuous_usage:
            return self._meter.usage
        return None if self._request.has_usage_chunk else UNSET

    def _chunk(
        self,
        choices: list[ChunkChoice],
        usage: Usage | UnsetType | None,
        params: TransferParams = UNSET,
    ) -> ChatChunk:
        return ChatChunk(
            id=self._identity.id,
            created=self._identity.created,
            model=self._identity.model,
            choices=choices,
            usage=usage,
            kv_transfer_params=params,
        )
