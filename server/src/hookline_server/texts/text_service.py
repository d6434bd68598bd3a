"""Text work for an event loop: tokenizing, chat templates and detokenizing."""

import asyncio
from array import array
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import BinaryIO

import msgspec

from hookline.exceptions import (
    ChatTemplateError,
    EngineDeadError,
    PromptTooLongError,
    RequestError,
)
from hookline.frontend.input_processor import distinct, spellings
from hookline.frontend.text_bounds import TextBounds
from hookline.frozen import EMPTY
from hookline.tokenizer import ChatMessage, Tokenizer
from hookline_host.folders import nameless_file
from hookline_metrics.front_end_parts import TextQueueName, TextStats
from hookline_processes.fair_queue import NOBODY, Client
from hookline_processes.supervised import Supervised
from hookline_server.texts.messages import (
    Answer,
    Encode,
    Encoded,
    Job,
    Render,
    Setup,
    TemplateRefused,
)
from hookline_server.texts.text_queue import QueueSettings, TextLimits, TextQueue
from hookline_server.texts.tokenizer_info import tokenizer_info

MIN_TEXT_CHARS = 2**20
CHARS_PER_TOKEN = 8
"""A text for `encode` may have this many characters per token of the context length."""
MIN_DECODED_TOKENS = 131_072


GIB = 2**30
SMALL_CHARS = 65_536
"""Texts up to this length together do not wait for longer ones."""
MESSAGE_CHARS = 64
"""What a message of a conversation counts besides its text."""
REAP_SECONDS = 0.1

_QUICK = TextLimits(cpu_seconds=2.0, seconds=20.0, memory_bytes=GIB)
_QUEUES = (
    QueueSettings(name="text", limits=_QUICK, depth=8),
    QueueSettings(name="chat", limits=_QUICK, depth=8),
    QueueSettings(
        name="long",
        limits=TextLimits(cpu_seconds=30.0, seconds=60.0, memory_bytes=4 * GIB),
        depth=1,
        retire_chars=2**18,
    ),
)


class TextService:
    """Renders and tokenizes in up to three processes, and detokenizes in a thread.

    Used on the event loop only. Short texts, conversations and long texts have a
    process each, so that none of them waits for another kind. Whatever a text, a
    template or a tokenizer does, it holds up its own kind at most until the limit, and
    nothing in the front end.
    """

    def __init__(self, tokenizer: Tokenizer, bounds: TextBounds) -> None:
        """Starts nothing yet."""
        self._tokenizer = tokenizer
        self._bounds = bounds
        self._setup: BinaryIO | None = None
        self._ending: list[Supervised] = []
        self._queues: Mapping[TextQueueName, TextQueue] = {
            each.name: TextQueue(each, self._setup_fd, self._reap) for each in _QUEUES
        }
        self._decoding = ThreadPoolExecutor(1, thread_name_prefix="detokenize")
        self._is_closed = False

    @property
    def max_text_chars(self) -> int:
        """Characters that a text for `encode` may have."""
        return max(MIN_TEXT_CHARS, CHARS_PER_TOKEN * self._bounds.max_model_len)

    @property
    def max_decoded_tokens(self) -> int:
        """Tokens that `decode` takes."""
        return max(MIN_DECODED_TOKENS, self._bounds.max_model_len)

    def stats(self) -> TextStats:
        """Returns the state of the text processes."""
        return TextStats(queues=tuple(queue.stats for queue in self._queues.values()))

    async def start(self) -> None:
        """Starts text processes, so that the first request need not wait for one."""
        await asyncio.to_thread(self._setup_fd)
        names: list[TextQueueName] = ["text"]
        if self._tokenizer.has_chat_template:
            names.append("chat")
        await asyncio.gather(*(self._queues[name].start_process() for name in names))

    async def encode(
        self,
        text: str,
        *,
        add_special_tokens: bool = True,
        is_prompt: bool = False,
        client: Client = NOBODY,
    ) -> list[int]:
        """Tokenizes a text that may be longer than the context, but not much.

        Args:
            text: The text.
            add_special_tokens: Whether to add the special tokens of a prompt.
            is_prompt: Whether only texts that fit into the context are of use.
            client: Clients are served in turn.

        Raises:
            PromptTooLongError: The prompt cannot fit.
            RequestError: The text is too long, not Unicode, or exceeds a limit.
            OverloadedError: Too much text is waiting.
        """
        if is_prompt:
            if len(text) > self._bounds.sure_chars:
                self._bounds.check(text)
        elif len(text) > self.max_text_chars:
            raise RequestError(
                f"the text has {len(text)} characters; at most {self.max_text_chars} "
                "can be tokenized at once",
                param="prompt",
            )
        most = self._bounds.max_model_len if is_prompt else None
        job = Encode([text], add_special_tokens, most)
        (token_ids,) = await self.do(job, client=client)
        return token_ids

    async def encode_words(
        self, words: Sequence[str], client: Client = NOBODY
    ) -> tuple[tuple[int, ...], ...]:
        """Returns the token ids of words that must not be generated.

        Raises:
            RequestError: They are not Unicode, or exceed a limit.
            OverloadedError: Too much text is waiting.
        """
        job = Encode(spellings(words), add_special_tokens=False)
        return distinct(await self.do(job, client=client))

    async def render_chat(
        self,
        messages: Sequence[ChatMessage],
        *,
        variables: Mapping[str, object] = EMPTY,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        chat_template: str | None = None,
        is_prompt: bool = True,
        client: Client = NOBODY,
    ) -> list[int]:
        """Applies the chat template and tokenizes.

        `variables` are further ones of the template, such as `tools`. With
        `continue_final_message` the prompt ends with the text of the last message.
        `chat_template` takes the place of the model's template. With `is_prompt` only
        conversations that fit into the context are of use.

        Raises:
            RequestError: The model has no template, it rejects the messages, or they
                exceed a limit.
            OverloadedError: Too much text is waiting.
        """
        bounds = self._bounds
        job = Render(
            messages,
            dict(variables),
            add_generation_prompt,
            continue_final_message,
            chat_template,
            max_tokens=bounds.max_model_len if is_prompt else None,
            max_chars=bounds.max_bytes if is_prompt else self.max_text_chars,
        )
        (token_ids,) = await self.do(job, client=client)
        return token_ids

    async def do(self, job: Job, *, client: Client) -> list[list[int]]:
        """Returns the token ids of each text of a job.

        Args:
            job: Texts that are clearly longer than its `max_tokens` may be refused.
            client: Clients are served in turn.

        Raises:
            PromptTooLongError: A text, or the prompt, is clearly too long.
            RequestError: A text is not Unicode, the model has no template or it rejects
                the messages, or the job exceeds a limit.
            OverloadedError: Too much text is waiting.
        """
        name: TextQueueName
        if isinstance(job, Encode):
            name, param, size = "text", "prompt", sum(map(len, job.texts))
        else:
            name, param, size = "chat", "messages", self._size(job)
        if self._is_closed:
            raise EngineDeadError("it was closed")
        queue = self._queues[name if size <= SMALL_CHARS else "long"]
        try:
            answer: Answer = await queue.do(client, job, size)
        except UnicodeEncodeError as error:
            reason = f"{param} has characters that are not valid Unicode"
            raise RequestError(reason, param=param) from error
        except OverflowError as error:  # only JSON of the client has integers
            reason = f"{param} has an integer of more than 64 bits"
            raise RequestError(reason, param=param) from error
        if isinstance(answer, Encoded):
            return [array("I", each).tolist() for each in answer.token_ids]
        if isinstance(answer, TemplateRefused):
            raise ChatTemplateError(answer.reason)
        limit = self._bounds.max_model_len
        raise PromptTooLongError(limit + 1, limit, is_minimum=True)

    async def decode(
        self, token_ids: Sequence[int], *, skip_special_tokens: bool = False
    ) -> str:
        """Detokenizes off the event loop.

        Raises:
            RequestError: There are too many tokens.
        """
        if len(token_ids) > self.max_decoded_tokens:
            raise RequestError(
                f"there are {len(token_ids)} tokens; at most {self.max_decoded_tokens} "
                "can be detokenized at once",
                param="tokens",
            )
        if self._is_closed:
            raise EngineDeadError("it was closed")
        return await asyncio.get_running_loop().run_in_executor(
            self._decoding,
            lambda: self._tokenizer.decode(
                token_ids, skip_special_tokens=skip_special_tokens
            ),
        )

    @property
    def has_chat_template(self) -> bool:
        """Whether the model has one."""
        return self._tokenizer.has_chat_template

    @property
    def tokenizer_info(self) -> Mapping[str, object]:
        """The configuration of the tokenizer, as JSON has it."""
        return tokenizer_info(self._tokenizer)

    @property
    def special_texts(self) -> frozenset[str]:
        """The texts of special tokens, which no grammar contains."""
        return self._tokenizer.special_texts

    def token_text(self, token_id: int) -> str:
        """Returns the text of one token by itself."""
        return self._tokenizer.token_text(token_id)

    def token_bytes(self, token_id: int) -> bytes:
        """Returns the bytes of one token; they may be part of a character."""
        return self._tokenizer.token_bytes(token_id)

    async def close(self) -> None:
        """Ends the processes and the thread; may be called twice."""
        self._is_closed = True
        for queue in self._queues.values():
            queue.close()
        for process in self._ending:
            await asyncio.to_thread(process.close, 0.0)  # they are killed already
        self._ending.clear()
        if self._setup is not None:
            self._setup.close()
            self._setup = None
        self._decoding.shutdown(wait=False)

    def _size(self, job: Render) -> int:
        """Returns the size of a conversation in characters.

        Raises:
            RequestError: There is no template for it.
        """
        if job.chat_template is None and not self._tokenizer.has_chat_template:
            raise RequestError("this model has no chat template", param="messages")
        size = sum(map(_size, job.messages)) + _size_as_json(job.variables)
        return size + len(job.chat_template or "")

    def _setup_fd(self) -> int:
        """Writes what processes need to a file, once."""
        if self._setup is None:
            setup = setup_of(self._tokenizer)
            self._setup = nameless_file("hookline-texts")  # closed in `close`
            self._setup.write(msgspec.msgpack.encode(setup))
            self._setup.flush()
        return self._setup.fileno()

    def _reap(self, process: Supervised) -> None:
        self._ending.append(process)
        asyncio.get_running_loop().call_later(REAP_SECONDS, self._reap_ended)

    def _reap_ended(self) -> None:
        ended = [each for each in self._ending if each.exit_code is not None]
        for process in ended:
            process.close(0.0)
            self._ending.remove(process)
        if self._ending and not self._is_closed:
            asyncio.get_running_loop().call_later(REAP_SECONDS, self._reap_ended)


def setup_of(tokenizer: Tokenizer) -> Setup:
    """Returns what a text process needs of a tokenizer."""
    return Setup(
        tokenizer.inner.backend_tokenizer.to_str(),
        dict(tokenizer.templates),
        dict(tokenizer.inner.special_tokens_map),
    )


def _size(message: Mapping[str, object]) -> int:
    texts = (len(value) for value in message.values() if isinstance(value, str))
    calls = message.get("tool_calls")
    return MESSAGE_CHARS + sum(texts) + (_size_as_json(calls) if calls else 0)


def _size_as_json(value: object) -> int:
    """Returns the length as JSON, which is quicker than a walk; 0 if empty."""
    return len(msgspec.json.encode(value)) if value else 0
