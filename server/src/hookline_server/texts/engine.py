"""An engine whose texts are processed in text processes, off the event loop."""

import asyncio
from collections.abc import Mapping, Sequence

from hookline.config import EngineConfig
from hookline.frontend.async_engine import AsyncEngine
from hookline.frontend.front_end import FrontEnd
from hookline.frozen import EMPTY
from hookline.tokenizer import ChatMessage
from hookline_server.loop_watch import LoopWatch
from hookline_server.probe import ProbeResult
from hookline_server.probing import probe_engine
from hookline_server.texts.text_service import TextService
from hookline_server.texts.tokenizer_info import tokenizer_info


class TextEngine(AsyncEngine):
    """An engine that tokenizes, detokenizes and applies chat templates for a server."""

    def __init__(self, front_end: FrontEnd, config: EngineConfig) -> None:
        """Takes over a front end, as `AsyncEngine` does; starts no text process yet."""
        loop_watch = LoopWatch(asyncio.get_running_loop())
        self._tokenizer = front_end.tokenizer
        self._texts = TextService(front_end.tokenizer, front_end.inputs.text_bounds)
        super().__init__(front_end, config, look=loop_watch.look)
        self.report(lambda: loop_watch.stats)

    async def start_texts(self) -> None:
        """Starts text processes, so that the first request need not wait for one."""
        await self._texts.start()
        self.report(self._texts.stats)

    async def probe(self, timeout_seconds: float) -> tuple[ProbeResult, ...]:
        """Lets each live engine generate one token, whatever the limits of the queue.

        The requests count in all metrics; their client id is `health-probe`.
        """
        probes = [
            probe_engine(self._front_end, engine, self._clock, timeout_seconds)
            for engine in self._front_end.engines.staying
        ]
        return tuple(await asyncio.gather(*probes))

    @property
    def has_chat_template(self) -> bool:
        return self._tokenizer.has_chat_template

    async def encode(
        self,
        text: str,
        *,
        add_special_tokens: bool = True,
        is_prompt: bool = False,
        client: str = "",
    ) -> list[int]:
        """Tokenizes in a text process; see `TextService.encode`."""
        return await self._texts.encode(
            text,
            add_special_tokens=add_special_tokens,
            is_prompt=is_prompt,
            client=client,
        )

    async def encode_words(
        self, words: Sequence[str], client: str = ""
    ) -> tuple[tuple[int, ...], ...]:
        """Returns the token ids of words that must not be generated."""
        return await self._texts.encode_words(words, client)

    async def decode(
        self, token_ids: Sequence[int], *, skip_special_tokens: bool = False
    ) -> str:
        """Detokenizes off the event loop; see `TextService.decode`."""
        return await self._texts.decode(
            token_ids, skip_special_tokens=skip_special_tokens
        )

    async def render_chat(
        self,
        messages: Sequence[ChatMessage],
        *,
        variables: Mapping[str, object] = EMPTY,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        chat_template: str | None = None,
        is_prompt: bool = True,
        client: str = "",
    ) -> list[int]:
        """Applies the chat template and tokenizes; see `TextService.render_chat`."""
        return await self._texts.render_chat(
            messages,
            variables=variables,
            add_generation_prompt=add_generation_prompt,
            continue_final_message=continue_final_message,
            chat_template=chat_template,
            is_prompt=is_prompt,
            client=client,
        )

    @property
    def tokenizer_info(self) -> Mapping[str, object]:
        """The configuration of the tokenizer, as JSON has it."""
        return tokenizer_info(self._tokenizer)

    @property
    def special_texts(self) -> frozenset[str]:
        """The texts of special tokens, which no grammar contains."""
        return self._tokenizer.special_texts

    def token_text(self, token_id: int) -> str:
        return self._tokenizer.token_text(token_id)

    def token_bytes(self, token_id: int) -> bytes:
        return self._tokenizer.token_bytes(token_id)

    async def close(self) -> None:
        """Also ends the text processes."""
        await super().close()
        await self._texts.close()
