"""Text work for an event loop: tokenizing, chat templates and detokenizing."""

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from hookline.exceptions import EngineDeadError, RequestError
from hookline.frontend.input_processor import distinct, spellings
from hookline.frontend.text_bounds import TextBounds
from hookline.frozen import EMPTY
from hookline.tokenizer import ChatMessage, Tokenizer
from hookline_metrics.front_end_parts import TextStats
from hookline_server.texts.pool import TextPool

MIN_TEXT_CHARS = 2**20
CHARS_PER_TOKEN = 8
"""A text for `encode` may have this many characters per token of the context length."""
MIN_DECODED_TOKENS = 131_072


class TextService:
    """Tokenizes in text processes and detokenizes in a thread, all bounded."""

    def __init__(self, tokenizer: Tokenizer, bounds: TextBounds) -> None:
        """Starts nothing yet."""
        self._tokenizer = tokenizer
        self._bounds = bounds
        self._pool = TextPool(tokenizer, bounds)
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
        return self._pool.stats

    async def start(self) -> None:
        """Starts text processes, so that the first request need not wait for one."""
        await self._pool.start()

    async def encode(
        self, text: str, *, add_special_tokens: bool, is_prompt: bool, client: str
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
            self._bounds.check(text)
        elif len(text) > self.max_text_chars:
            raise RequestError(
                f"the text has {len(text)} characters; at most {self.max_text_chars} "
                "can be tokenized at once",
                param="prompt",
            )
        (token_ids,) = await self._pool.encode(
            [text],
            add_special_tokens=add_special_tokens,
            client=client,
            max_tokens=self._bounds.max_model_len if is_prompt else None,
        )
        return token_ids

    async def encode_words(
        self, words: Sequence[str], client: str
    ) -> tuple[tuple[int, ...], ...]:
        """Returns the token ids of words that must not be generated.

        Raises:
            RequestError: They are not Unicode, or exceed a limit.
            OverloadedError: Too much text is waiting.
        """
        return distinct(
            await self._pool.encode(
                spellings(words), add_special_tokens=False, client=client
            )
        )

    async def render_chat(
        self,
        messages: Sequence[ChatMessage],
        *,
        variables: Mapping[str, object] = EMPTY,
        add_generation_prompt: bool,
        continue_final_message: bool = False,
        chat_template: str | None = None,
        is_prompt: bool = True,
        client: str,
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
        return await self._pool.render_chat(
            messages,
            variables=variables,
            add_generation_prompt=add_generation_prompt,
            continue_final_message=continue_final_message,
            chat_template=chat_template,
            client=client,
            max_tokens=self._bounds.max_model_len if is_prompt else None,
            max_chars=self._bounds.max_bytes if is_prompt else self.max_text_chars,
        )

    async def decode(
        self, token_ids: Sequence[int], *, skip_special_tokens: bool
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

    async def close(self) -> None:
        """Ends the processes and the thread; may be called twice."""
        self._is_closed = True
        await self._pool.close()
        self._decoding.shutdown(wait=False)
