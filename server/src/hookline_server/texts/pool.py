"""The text processes of one front end, one for each kind of work."""

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from typing import BinaryIO

import msgspec

from hookline.exceptions import (
    ChatTemplateError,
    EngineDeadError,
    PromptTooLongError,
    RequestError,
)
from hookline.frontend.text_bounds import TextBounds
from hookline.frozen import EMPTY
from hookline.tokenizer import Tokenizer
from hookline_metrics.front_end_parts import TextQueueName, TextStats
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
from hookline_server.texts.text_process import TextLimits
from hookline_server.texts.text_queue import QueueSettings, TextQueue

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


class TextPool:
    """Renders and tokenizes in up to three processes; used on the event loop only.

    Short texts, conversations and long texts have a process each, so that none of them
    waits for another kind. Whatever a text, a template or a tokenizer does, it holds up
    its own kind at most until the limit, and nothing in the front end.
    """

    def __init__(self, tokenizer: Tokenizer, bounds: TextBounds) -> None:
        """Starts nothing yet."""
        self._tokenizer = tokenizer
        self._bounds = bounds
        self._setup: BinaryIO | None = None
        self._ending: list[Supervised] = []
        self._is_closed = False
        self._queues: Mapping[TextQueueName, TextQueue] = {
            each.name: TextQueue(each, self._setup_fd, self._reap) for each in _QUEUES
        }

    @property
    def stats(self) -> TextStats:
        """Totals of each queue."""
        return TextStats(queues=tuple(queue.stats for queue in self._queues.values()))

    async def start(self) -> None:
        """Starts the processes that every server needs, and waits for them."""
        await asyncio.to_thread(self._setup_fd)
        names: list[TextQueueName] = ["text"]
        if self._tokenizer.has_chat_template:
            names.append("chat")
        await asyncio.gather(*(self._queues[name].start_process() for name in names))

    async def encode(
        self,
        texts: Sequence[str],
        *,
        add_special_tokens: bool,
        client: str,
        max_tokens: int | None = None,
    ) -> list[list[int]]:
        """Returns the token ids of each text.

        Args:
            texts: The texts.
            add_special_tokens: Whether to add the special tokens of a prompt.
            client: Clients are served in turn.
            max_tokens: Tokens that are of use; texts that are clearly longer may be
                refused. None tokenizes texts of any length.

        Raises:
            PromptTooLongError: A text has clearly more than `max_tokens`.
            RequestError: A text is not Unicode, or exceeds a limit.
            OverloadedError: Too much text is waiting.
        """
        size = sum(map(len, texts))
        queue = self._queues["text" if size <= SMALL_CHARS else "long"]
        job = Encode(texts, add_special_tokens, max_tokens)
        return await self._do(queue, client, job, size, "prompt")

    async def render_chat(
        self,
        messages: Sequence[Mapping[str, object]],
        *,
        variables: Mapping[str, object] = EMPTY,
        add_generation_prompt: bool,
        continue_final_message: bool = False,
        chat_template: str | None = None,
        client: str,
        max_tokens: int | None,
        max_chars: int,
    ) -> list[int]:
        """Applies the chat template and returns the token ids.

        `variables` are further ones of the template, such as `tools`; the others are
        those of `Render`.

        Raises:
            PromptTooLongError: The prompt is clearly too long for the model.
            RequestError: The model has no template, it rejects the messages, or it
                exceeds a limit.
            OverloadedError: Too much text is waiting.
        """
        if chat_template is None and not self._tokenizer.has_chat_template:
            raise RequestError("this model has no chat template", param="messages")
        size = sum(map(_size, messages)) + _size_as_json(variables)
        size += len(chat_template or "")
        queue = self._queues["chat" if size <= SMALL_CHARS else "long"]
        job = Render(
            messages,
            dict(variables),
            add_generation_prompt,
            continue_final_message,
            chat_template,
            max_tokens,
            max_chars,
        )
        (token_ids,) = await self._do(queue, client, job, size, "messages")
        return token_ids

    async def close(self) -> None:
        """Ends all processes; may be called twice."""
        self._is_closed = True
        for queue in self._queues.values():
            queue.close()
        for process in self._ending:
            await asyncio.to_thread(process.close, 0.0)  # they are killed already
        self._ending.clear()
        if self._setup is not None:
            self._setup.close()
            self._setup = None

    async def _do(
        self, queue: TextQueue, client: str, job: Job, size: int, param: str
    ) -> list[list[int]]:
        if self._is_closed:
            raise EngineDeadError("it was closed")
        try:
            answer: Answer = await queue.do(client, job, size)
        except UnicodeEncodeError as error:
            reason = f"{param} has characters that are not valid Unicode"
            raise RequestError(reason, param=param) from error
        except OverflowError as error:  # only JSON of the client has integers
            reason = f"{param} has an integer of more than 64 bits"
            raise RequestError(reason, param=param) from error
        if isinstance(answer, Encoded):
            return answer.lists()
        if isinstance(answer, TemplateRefused):
            raise ChatTemplateError(answer.reason)
        limit = self._bounds.max_model_len
        raise PromptTooLongError(limit + 1, limit, is_minimum=True)

    def _setup_fd(self) -> int:
        """Writes what processes need to a file, once."""
        if self._setup is None:
            setup = setup_of(self._tokenizer)
            self._setup = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `close`
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
        tokenizer.chat_template,
        dict(tokenizer.inner.special_tokens_map),
    )


def _size(message: Mapping[str, object]) -> int:
    texts = (len(value) for value in message.values() if isinstance(value, str))
    calls = message.get("tool_calls")
    return MESSAGE_CHARS + sum(texts) + (_size_as_json(calls) if calls else 0)


def _size_as_json(value: object) -> int:
    """Returns the length as JSON, which is quicker than a walk; 0 if empty."""
    return len(msgspec.json.encode(value)) if value else 0
