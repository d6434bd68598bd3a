"""Tokenizes the texts of requests off the event loop."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from hookline.exceptions import EngineDeadError
from hookline.frontend.encoded_texts import EncodedTexts, bad_word_spellings
from hookline.frontend.front_end import FrontEnd
from hookline.sampling_params import SamplingParams


class RequestEncoder(Protocol):
    """Tokenizes all texts of a request before it is prepared."""

    async def encode_request(
        self, prompt: str | Sequence[int], params: SamplingParams, client: str
    ) -> EncodedTexts:
        """Tokenizes a prompt and the bad words; texts of different clients in turn.

        Raises:
            PromptTooLongError: The prompt cannot fit into the context.
            RequestError: A text is not Unicode, or exceeds a limit.
            OverloadedError: Too much text is waiting.
            EngineDeadError: It was closed.
        """
        ...

    async def close(self) -> None:
        """Ends what it has started; may be called twice."""
        ...


class ThreadedEncoder:
    """Tokenizes with a front end's tokenizer in one thread."""

    def __init__(self, front_end: FrontEnd) -> None:
        """Starts no thread yet."""
        self._tokenizer = front_end.tokenizer
        self._bounds = front_end.text_bounds
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tokenize")
        self._is_closed = False

    async def encode_request(
        self,
        prompt: str | Sequence[int],
        params: SamplingParams,
        client: str,  # noqa: ARG002 - all texts take turns
    ) -> EncodedTexts:
        """As `RequestEncoder.encode_request`; texts are taken as they come."""
        if self._is_closed:
            raise EngineDeadError("it was closed")
        return await asyncio.get_running_loop().run_in_executor(
            self._thread, self._encode, prompt, params
        )

    async def close(self) -> None:
        """Ends the thread once it has tokenized the current text."""
        self._is_closed = True
        self._thread.shutdown(wait=False)

    def _encode(
        self, prompt: str | Sequence[int], params: SamplingParams
    ) -> EncodedTexts:
        found = EncodedTexts()
        if isinstance(prompt, str):
            self._bounds.check(prompt)
            self._add(found, [prompt], add_special_tokens=True)
        if params.bad_words and all(isinstance(each, str) for each in params.bad_words):
            words = list(bad_word_spellings(params.bad_words))
            self._add(found, words, add_special_tokens=False)
        return found

    def _add(
        self, found: EncodedTexts, texts: Sequence[str], *, add_special_tokens: bool
    ) -> None:
        encode = self._tokenizer.encode
        ids = [encode(text, add_special_tokens=add_special_tokens) for text in texts]
        found.add(texts, ids, add_special_tokens=add_special_tokens)
