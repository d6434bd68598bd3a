"""Responses of `/v1/chat/completions`."""

from collections.abc import Iterable, Iterator, Sequence

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
from hookline_server.answers.chat_logprobs import chat_logprobs
from hookline_server.answers.prompt_tokens import raw_token_ids, sliced_prompt_logprobs
from hookline_server.answers.reply import ReplyStream, WholeReply, is_cut
from hookline_server.answers.settings import DEFAULT_RESPONSES, ResponseSettings
from hookline_server.answers.slices import SLICE_TOKENS, Columns, Turns
from hookline_server.answers.token_names import TokenNames
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
from hookline_server.protocol.usage import Usage
from hookline_server.replies.reading import ReplyReading


class ChatAnswer:
    """Creates the messages of one request."""

    def __init__(
        self,
        identity: Identity,
        request: ChatRequest,
        engine: ServingEngine,
        reading: ReplyReading,
        settings: ResponseSettings = DEFAULT_RESPONSES,
    ) -> None:
        self._identity = identity
        self._request = request
        self._engine = engine
        self._reading = reading
        self._meter = UsageMeter()
        self._note = MetricsNote(settings)
        self._role = settings.response_role
        self._ends_with_text = settings.finish_reason_with_last_token
        self._streamed: dict[int, ReplyStream] = {}
        self._names = TokenNames(
            engine, has_ids=bool(request.return_tokens_as_token_ids)
        )
        self._echo = request.echoed_text

    async def whole(self, outputs: Sequence[RequestOutput]) -> ChatCompletion:
        """Returns the response to a request without streaming."""
        output = outputs[0]
        self._meter.add_output(0, output, n=1)
        self._note.add_output(0, output, n=self._request.n or 1)
        if self._reading.reasoning is not None:
            self._meter.reasoning_tokens = 0
        turns = Turns()
        return ChatCompletion(
            id=self._identity.id,
            created=self._identity.created,
            model=self._identity.model,
            system_fingerprint=self._identity.system_fingerprint,
            choices=[await self._choice(each, turns) for each in output.outputs],
            usage=self._meter.usage,
            prompt_logprobs=await sliced_prompt_logprobs(
                self._engine, output, self._request.prompt_logprobs, turns
            ),
            prompt_token_ids=self._prompt_token_ids(output),
            kv_transfer_params=transfer_params(output),
            metrics=self._note.noted,
        )

    def chunks(self, batch: Iterable[tuple[int, RequestOutput]]) -> Iterator[ChatChunk]:
        """Returns each choice's events: its role, its text and its end."""
        for _, output in batch:
            is_first = not self._streamed
            self._meter.take_prompt(0, output)
            usage_before = self._usage_so_far()
            self._meter.add_output(0, output, n=1)
            self._note.add_output(0, output, n=self._request.n or 1)
            choices = [
                choice
                for completion in output.outputs
                for choice in self._chunk_choices(completion)
            ]
            if self._reading.reasoning is not None:
                streams = self._streamed.values()
                self._meter.reasoning_tokens = sum(
                    each.reasoning_tokens for each in streams
                )
            for choice in choices:
                chunk = self._chunk([choice], self._usage_so_far())
                if choice.delta.role is not UNSET:  # it has no token yet
                    chunk.usage = usage_before
                if is_first and choice is choices[0]:
                    chunk.prompt_token_ids = self._prompt_token_ids(output)
                if choice is choices[-1]:
                    chunk.kv_transfer_params = transfer_params(output)
                yield chunk

    def usage_chunk(self) -> ChatChunk | None:
        """Returns the usage event, if the client requested it."""
        if not self._request.has_usage_chunk:
            return None
        chunk = self._chunk([], self._meter.usage)
        chunk.metrics = self._note.noted
        return chunk

    async def _choice(self, completion: CompletionOutput, turns: Turns) -> ChatChoice:
        word = finish_word(completion) or "length"
        message, has_calls = await self._message(completion, turns)
        stop = completion.stop_reason
        return ChatChoice(
            index=completion.index,
            message=self._named(self._echoed(message)),
            logprobs=await self._sliced_logprobs(completion, turns),
            token_ids=await self._token_ids(completion, turns),
            finish_reason=self._reading.finish_word(word, has_calls=has_calls),
            stop_reason=stop,
        )

    def _echoed(self, message: AnswerMessage) -> AnswerMessage:
        if not self._echo:
            return message
        content = self._echo + (message.content or "")
        return msgspec.structs.replace(message, content=content)

    def _named(self, message: AnswerMessage) -> AnswerMessage:
        if message.role == self._role:
            return message
        return msgspec.structs.replace(message, role=self._role)

    async def _message(
        self, completion: CompletionOutput, turns: Turns
    ) -> tuple[AnswerMessage, bool]:
        """Returns the message, and whether it has calls."""
        if (reader := self._reading.reader()) is None:
            return AnswerMessage(content=completion.text), False
        reply = WholeReply(
            is_legacy=self._reading.use.is_legacy,
            shows_reasoning=self._reading.shows_reasoning,
        )
        token_bytes = self._engine.texts.token_bytes
        for parts in reader.read(completion.text, completion.token_ids, token_bytes):
            reply.add(parts)
            await turns.took(1)
        reply.add(reader.finish(is_cut=is_cut(completion)))
        if self._meter.reasoning_tokens is not None:
            self._meter.reasoning_tokens += reader.reasoning_tokens
        return reply.message(), reader.has_calls

    def _chunk_choices(self, completion: CompletionOutput) -> Iterator[ChunkChoice]:
        index = completion.index
        if (stream := self._streamed.get(index)) is None:
            stream = ReplyStream(self._reading, self._engine.texts.token_bytes)
            self._streamed[index] = stream
            delta = Delta(role=self._role, content="")
            yield ChunkChoice(index=index, delta=delta)
            if self._echo:
                yield ChunkChoice(index=index, delta=Delta(content=self._echo))
        choices = list(self._text_choices(completion, stream))
        if (word := finish_word(completion)) is not None:
            has_text = self._ends_with_text and bool(choices)
            last = (
                choices.pop() if has_text else ChunkChoice(index=index, delta=Delta())
            )
            reason = self._reading.finish_word(word, has_calls=stream.has_calls)
            stop = completion.stop_reason
            choices.append(
                msgspec.structs.replace(last, finish_reason=reason, stop_reason=stop)
            )
        yield from choices

    def _text_choices(
        self, completion: CompletionOutput, stream: ReplyStream
    ) -> Iterator[ChunkChoice]:
        logprobs = self._logprobs(completion.logprobs)
        has_ids = bool(self._request.return_token_ids)
        token_ids = completion.token_ids if has_ids else UNSET
        wants_tokens = has_ids or logprobs is not None
        for delta in stream.deltas(completion, wants_tokens=wants_tokens):
            yield ChunkChoice(
                index=completion.index,
                delta=delta,
                logprobs=logprobs,
                token_ids=token_ids,
            )
            logprobs = None if logprobs is None else ChatLogprobs([])
            token_ids = [] if has_ids else UNSET

    async def _sliced_logprobs(
        self, completion: CompletionOutput, turns: Turns
    ) -> Raw | None:
        if not self._request.logprobs:
            return None
        entries = completion.logprobs or []
        completion.logprobs = None  # to free them now, and not all choices' at once
        columns = Columns(ChatLogprobs([]))
        for start in range(0, len(entries), SLICE_TOKENS):
            part = entries[start : start + SLICE_TOKENS]
            columns.add(chat_logprobs(self._names, part).content)
            await turns.took(len(part))
        return columns.raw()

    async def _token_ids(
        self, completion: CompletionOutput, turns: Turns
    ) -> Raw | UnsetType:
        if not self._request.return_token_ids:
            return UNSET
        await turns.took(len(completion.token_ids))
        return raw_token_ids(completion.token_ids)

    def _prompt_token_ids(self, output: RequestOutput) -> Raw | UnsetType:
        if not self._request.return_token_ids:
            return UNSET
        return raw_token_ids(output.prompt_token_ids)

    def _logprobs(self, entries: list[TokenLogprobs] | None) -> ChatLogprobs | None:
        if not self._request.logprobs:
            return None
        return chat_logprobs(self._names, entries or ())

    def _usage_so_far(self) -> Usage | UnsetType | None:
        if self._request.has_continuous_usage:
            return self._meter.usage
        return None if self._request.has_usage_chunk else UNSET

    def _chunk(
        self, choices: list[ChunkChoice], usage: Usage | UnsetType | None
    ) -> ChatChunk:
        return ChatChunk(
            id=self._identity.id,
            created=self._identity.created,
            model=self._identity.model,
            system_fingerprint=self._identity.system_fingerprint,
            choices=choices,
            usage=usage,
        )
